"""The rate of copied bytes is kept on average, for all threads together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from handlers.files.copying.byte_limits import Throttle
from handlers.files.copying.pool import CopyPool
from tests.builders.replication.warehouse import Warehouse


if TYPE_CHECKING:
    from pathlib import Path


def test_each_user_waits_for_what_was_used_before_it() -> None:
    now, pauses = [100.0], list[float]()
    throttle = Throttle(1000, clock=lambda: now[0], wait=pauses.append)
    throttle.use(500)
    throttle.use(1000)
    now[0] = 101.0
    throttle.use(100)
    assert [round(pause, 6) for pause in pauses] == [0.5, 1.5, 0.6]
    now[0] = 500.0
    throttle.use(100)
    assert round(pauses[-1], 6) == 0.1, "an idle time is not saved up"


def test_a_closed_throttle_lets_waiting_threads_continue() -> None:
    throttle = Throttle(1)
    thread = threading.Thread(target=throttle.use, args=(10**9,))
    thread.start()
    throttle.close()
    thread.join(10)
    assert not thread.is_alive()
    throttle.use(10**9)


def test_a_pool_counts_all_bytes_that_it_copies(tmp_path: Path) -> None:
    warehouse, used = Warehouse(tmp_path), list[float]()
    throttle = Throttle(1, clock=lambda: 0.0, wait=used.append)
    pool = CopyPool(warehouse.copier(), workers=1, throttle=throttle)
    pool.wait([pool.submit(warehouse.task(warehouse.wrote(b"four", checksum=False)))])
    assert used == [4.0]
    assert pool.close()
