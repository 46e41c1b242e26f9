"""Reads a range of events from a source's topic, with a reader of its own, for tables that catch up."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from state.errors import Interrupted
from state.positions import Position


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from daemon.consumer.topic_reader import TopicReader
    from handlers.events import Event


READ_S: Final = 0.5


def read_range(
    open_reader: Callable[[], TopicReader],
    after: int,
    upto: int,
    *,
    beat: Callable[[], None] = lambda: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Yield the events after one id up to another; raise GapDetected if they cannot be read, and Interrupted at a stop."""
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
                raise Interrupted("the daemon stops", position=str(batch.position))
            beat()
