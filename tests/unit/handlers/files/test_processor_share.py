"""Copies of loads leave replay a multiple of the processor time that it uses, and else have all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.files.copying.byte_rates import Urgency
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.processor_share import (
    HALF_LIFE_S,
    REPLAY_FACTOR,
    SHARE_MIN,
    ProcessorShare,
)
from handlers.files.copying.throttle import Throttle
from tests.builders.replication.warehouse import Warehouse


class Processor:
    """A clock, and the share that depends on it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.share = ProcessorShare(clock=lambda: self.now_s)

    def pass_time(self, seconds: float, replay: float = 0.0) -> None:
        """Let replay use the given share of the processor for so long."""
        self.now_s += seconds
        self.share.note_replay(replay * seconds)


@given(st.floats(min_value=0.0, max_value=1.0))
def test_copies_have_what_a_multiple_of_replay_leaves_but_always_a_least_share(replay: float) -> None:
    processor = Processor()
    processor.pass_time(1.0, replay)
    processor.share.use(0.0, Urgency.LOAD, lambda: False)
    assert processor.share.share == pytest.approx(max(SHARE_MIN, 1.0 - REPLAY_FACTOR * replay))


def test_copies_take_no_more_when_replay_is_held_up_for_a_moment() -> None:
    processor = Processor()
    processor.pass_time(1.0, 0.1)
    processor.share.use(0.0, Urgency.LOAD, lambda: False)
    before = processor.share.share
    processor.pass_time(HALF_LIFE_S)
    processor.share.use(0.0, Urgency.LOAD, lambda: False)
    assert before == pytest.approx(1.0 - 0.1 * REPLAY_FACTOR)
    assert processor.share.share == pytest.approx(1.0 - 0.05 * REPLAY_FACTOR)


def test_a_copy_waits_until_the_time_of_the_earlier_ones_is_within_the_share() -> None:
    processor = Processor()
    processor.pass_time(1.0, 1.0)
    processor.share.use(0.01, Urgency.LOAD, lambda: False)
    waits_s = list[float]()

    def pass_time() -> bool:
        processor.pass_time(0.04)
        waits_s.append(0.04)
        return False

    processor.share.use(0.01, Urgency.LOAD, pass_time)
    assert sum(waits_s) == pytest.approx(0.01 / SHARE_MIN)


def test_without_replay_copies_never_wait() -> None:
    processor = Processor()
    processor.pass_time(1.0, 0.5)
    processor.share.use(0.001, Urgency.LOAD, lambda: False)
    processor.pass_time(60.0)
    for _ in range(1_000):
        processor.share.use(1.0, Urgency.LOAD, lambda: False)


def test_only_copies_that_replay_does_not_need_give_way() -> None:
    processor = Processor()
    processor.pass_time(1.0, 1.0)
    throttle = Throttle((), processor=processor.share)
    for _ in range(1_000):
        throttle.use_processor(1.0)
    throttle.urgency = Urgency.LOAD
    throttle.use_processor(1.0)
    throttle.close()
    throttle.use_processor(1.0)


def test_a_large_file_counts_little_more_than_a_small_one(warehouse: Warehouse) -> None:
    processor = Processor()
    counted = list[float]()
    processor.share.use = lambda seconds, *_: counted.append(seconds)  # type: ignore[method-assign]
    pool = CopyPool(
        warehouse.copier(), workers=1, throttle=Throttle((), Urgency.LOAD, processor=processor.share)
    )
    for name, size_bytes in (("small", 10), ("large", 32 * 1024**2)):
        pool.wait([pool.submit(warehouse.task(warehouse.wrote(bytes(size_bytes), name=name)))])
    assert pool.close()
    small_s, large_s = counted
    assert 0 < small_s <= 0.001
    assert large_s == 0.001
