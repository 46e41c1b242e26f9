"""The resources that only loads use, so that they delay no other table: copy threads, and a second reader of
the topic.

Every load has its own copy pool, with the threads for loads of its target. The counts of former pools remain,
so that the metrics of copies and bytes contain all files that reach the target, and never decrease. Tables
that catch up read a range of events with a separate reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from daemon.consumer.topic_reader import TopicReader
from handlers.events import Event
from handlers.files.copying.pool import CopyCounters, CopyPool
from state.errors import Interrupted
from state.event_log.positions import Position


class LoadCopies:
    """The copy pools of a policy's loads, which run one after another. ``total`` is thread-safe."""

    def __init__(self, build: Callable[[], CopyPool]) -> None:
        self._build = build
        self._loads: tuple[CopyCounters, CopyPool | None] = (CopyCounters(), None)
        """The counts of ended loads, and the pool of the last one; replaced as a whole."""

    def open(self) -> CopyPool:
        """Return the copy pool of the next load."""
        pool = self._build()
        self._loads = (self.total(), pool)
        return pool

    def total(self) -> CopyCounters:
        """Return the counts of all loads so far."""
        ended, pool = self._loads
        return ended if pool is None else ended.plus(pool.counters())

    def pending(self) -> int:
        """Return the approximate number of files that the current load still has to copy."""
        _, pool = self._loads
        return 0 if pool is None else sum(pool.pending())


READ_S: Final = 0.5


def read_range(
    open_reader: Callable[[], TopicReader],
    after: int,
    upto: int,
    *,
    beat: Callable[[], None] = lambda: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Yield the events after one id up to another. Raises GapDetected if they are lost, and Interrupted after
    a stop request.
    """
    with closing(open_reader()) as reader:
        reader.seek(Position(after))
        while True:
            batch = reader.read(READ_S)
            for event in batch.events:
                if event.event_id > upto:
                    return
                yield event
            if batch.position.applied_event_id >= upto:
                return
            if is_stopping():
                raise Interrupted("the daemon is stopping", position=str(batch.position))
            beat()
