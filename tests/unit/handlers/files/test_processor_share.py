"""Copies of loads have a share of the processor while events are applied, and otherwise all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.files.copying.byte_rates import Urgency
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.processor_share import HOLD_S, SHARE, ProcessorShare
from handlers.files.copying.throttle import Throttle
from state.errors import FilesUnavailable
from tests.builders.replication.warehouse import Warehouse


class Processor:
    """A clock, and the share that depends on it."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.share = ProcessorShare(clock=lambda: self.now_s)

    def copy(self, seconds: float) -> float:
        """Use the processor for a copy; return how long the next one had to wait."""
        began_s = self.now_s

        def pass_time() -> bool:
            self.now_s = max(self.now_s, self.share._rate.paid_s)
            return False

        self.share.use(seconds, Urgency.LOAD, pass_time)
        return self.now_s - began_s


@pytest.fixture
def processor() -> Processor:
    return Processor()


@given(st.lists(st.floats(min_value=0.002, max_value=0.5), min_size=1, max_size=9))
def test_while_events_are_applied_copies_have_their_share(copies_s: list[float]) -> None:
    processor = Processor()
    with processor.share.replaying():
        waits_s = [processor.copy(each) for each in [*copies_s, 0.001]]
    assert waits_s[1:] == [pytest.approx(each / SHARE, abs=1e-5) for each in copies_s]


def test_copies_have_their_share_until_a_moment_after_the_last_batch(processor: Processor) -> None:
    with processor.share.replaying():
        with processor.share.replaying():
            pass
        processor.now_s += HOLD_S
        processor.copy(0.1)
        assert processor.copy(0.01) == pytest.approx(0.1 / SHARE)
    assert processor.copy(0.0) == pytest.approx(0.01 / SHARE)
    processor.now_s += HOLD_S
    processor.copy(1.0)
    assert processor.copy(1.0) == 0.0


def test_a_batch_that_fails_ends_too(processor: Processor) -> None:
    with pytest.raises(FilesUnavailable), processor.share.replaying():
        raise FilesUnavailable("the disk is full")
    processor.now_s += HOLD_S
    processor.copy(1.0)
    assert processor.copy(1.0) == 0.0


def test_without_replay_copies_never_wait(processor: Processor) -> None:
    assert [processor.copy(1.0) for _ in range(100)] == [0.0] * 100


def test_only_copies_that_replay_does_not_need_give_way(processor: Processor) -> None:
    throttle = Throttle((), processor=processor.share)
    with processor.share.replaying():
        for _ in range(1_000):
            throttle.use_processor(1.0)
        throttle.urgency = Urgency.LOAD
        throttle.use_processor(1.0)
        throttle.close()
        throttle.use_processor(1.0)


def test_a_large_file_counts_little_more_than_a_small_one(warehouse: Warehouse, processor: Processor) -> None:
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
