"""The rate of copied bytes is kept on average, for all threads together, and urgent copies come first."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from handlers.files.copying.byte_rates import ByteRate, Urgency
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.throttle import Throttle
from tests.builders.daemon.loops import eventually
from tests.builders.replication.warehouse import Warehouse


def never() -> bool:
    return False


class Waiter:
    """A thread that uses bytes of a throttle."""

    def __init__(self, throttle: Throttle, size_bytes: int = 1) -> None:
        self.thread = threading.Thread(target=throttle.use, args=(size_bytes,), daemon=True)
        self.thread.start()

    @property
    def is_done(self) -> bool:
        return not self.thread.is_alive()


def test_a_step_is_made_once_all_earlier_ones_are_paid_for_and_an_idle_time_is_not_saved_up() -> None:
    now = [100.0]
    rate = ByteRate(1000, clock=lambda: now[0])
    throttle = Throttle([rate])
    throttle.use(5000)
    waiter = Waiter(throttle, 2000)
    eventually(lambda: throttle.has_waiting)
    now[0] = 104.9
    rate.wake()
    assert not waiter.is_done
    now[0] = 105.0
    rate.wake()
    eventually(lambda: waiter.is_done)
    now[0] = 500.0
    throttle.use(1000)
    late = Waiter(throttle)
    eventually(lambda: throttle.has_waiting)
    now[0] = 501.0
    rate.wake()
    eventually(lambda: late.is_done)


def test_replay_waits_for_one_step_of_a_load_and_loads_come_before_cycles() -> None:
    now = [0.0]
    rate = ByteRate(1, clock=lambda: now[0])
    throttles = [Throttle([rate], urgency) for urgency in Urgency]
    throttles[Urgency.CYCLE].use(10)
    waiters: list[Waiter] = []

    def has_ended(number: int) -> bool:
        return sum(waiter.is_done for waiter in waiters) == number

    for throttle in reversed(throttles):
        waiters.append(Waiter(throttle, 10))
        eventually(partial(getattr, throttle, "has_waiting"))
    ended = []
    for turn in range(3):
        now[0] += 10
        rate.wake()
        eventually(partial(has_ended, turn + 1))
        ended.append([waiter.is_done for waiter in reversed(waiters)])
    assert ended == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_limit_is_changed_and_removed_while_threads_wait() -> None:
    now = [0.0]
    rate = ByteRate(1, clock=lambda: now[0])
    throttle = Throttle([rate])
    throttle.use(100)
    waiter = Waiter(throttle, 100)
    eventually(lambda: throttle.has_waiting)
    rate.change(50)
    now[0] = 1.9
    rate.wake()
    assert not waiter.is_done
    now[0] = 2.0
    rate.wake()
    eventually(lambda: waiter.is_done)
    last = Waiter(throttle)
    eventually(lambda: throttle.has_waiting)
    rate.change(None)
    eventually(lambda: last.is_done)
    assert not throttle.is_limited


@given(st.integers(1, 1000), st.lists(st.integers(1, 10_000), max_size=30), st.floats(0, 3))
def test_never_more_is_used_than_the_rate_allows_beyond_one_step(
    bytes_per_s: int, steps: list[int], idle_s: float
) -> None:
    now = [0.0]
    rate = ByteRate(bytes_per_s, clock=lambda: now[0])
    used = 0
    for step in steps:
        now[0] = max(now[0] + idle_s, rate.paid_s)
        assert used <= bytes_per_s * now[0] + 1e-6
        rate.use(step, Urgency.REPLAY, never)
        used += step


def test_a_closed_throttle_lets_waiting_threads_continue() -> None:
    throttle = Throttle([ByteRate(None), ByteRate(1)])
    throttle.use(10**9)
    waiter = Waiter(throttle)
    eventually(lambda: throttle.has_waiting)
    throttle.close()
    eventually(lambda: waiter.is_done)
    throttle.use(10**9)
    assert not throttle.has_waiting


def test_a_pool_counts_all_bytes_that_it_copies(tmp_path: Path) -> None:
    warehouse, now, beats = Warehouse(tmp_path), [0.0], threading.Event()
    rate = ByteRate(4, clock=lambda: now[0])
    pool = CopyPool(warehouse.copier(), workers=1, throttle=Throttle([rate]), beat=beats.set)
    pool.wait([pool.submit(warehouse.task(warehouse.wrote(b"four", checksum=False)))])
    assert rate.paid_s == 1.0
    second = pool.submit(warehouse.task(warehouse.wrote(b"more", checksum=False)))
    waiting = threading.Thread(target=pool.wait, args=([second],))
    waiting.start()
    beats.clear()
    assert beats.wait(60), "waiting for a rate is no hang"
    beats.clear()
    assert beats.wait(60)

    def has_ended() -> bool:
        now[0] += 4
        rate.wake()
        return not waiting.is_alive()

    eventually(has_ended)
    assert pool.close()


def test_a_step_has_the_bytes_of_a_second_of_the_lowest_rate_and_64_mib_at_most(tmp_path: Path) -> None:
    rates = [ByteRate(5_000_000), ByteRate(1 << 40), ByteRate(None)]
    assert [Throttle([rate]).step_bytes() for rate in rates] == [5_000_000, 64 << 20, 64 << 20]
    warehouse, steps = Warehouse(tmp_path), list[int]()
    task = warehouse.task(warehouse.wrote(b"x" * 2500, checksum=False))
    step_bytes = Throttle([ByteRate(1000)]).step_bytes
    warehouse.copier().publish(task, moved=steps.append, step_bytes=step_bytes)
    assert steps == [1000, 1000, 500]


def test_the_time_of_all_waits_is_counted() -> None:
    now = [0.0]
    rate = ByteRate(10, clock=lambda: now[0])
    throttle = Throttle([rate], clock=lambda: now[0])
    throttle.use(30)
    waiter = Waiter(throttle)
    eventually(lambda: throttle.has_waiting)
    assert throttle.waited_s == 0
    now[0] = 3.0
    rate.wake()
    eventually(lambda: waiter.is_done)
    assert throttle.waited_s == 3.0
