"""Requests events of the notification log, in batches whose size follows what the metastore can answer.

An answer is in memory completely, on both sides. If it is too large, or does not arrive, the next request is for half as many events;
batches grow again while they stay small. A single event that is too large raises LimitExceeded, and the caller decides.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from state.errors import GapDetected, Inconsistent, LimitExceeded, MetastoreUnavailable, Refused, Transient


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.sources.write_events import Connect, NotificationLog
    from handlers.structs.notifications import NotificationEvent


_SMALLEST_BATCH: Final = 10


class EventBatches:
    """The notification log of one source. Connects on first use; used by one thread."""

    def __init__(self, connect: Connect, *, batch_events: int, batch_bytes: int) -> None:
        """``batch_events`` are requested at once at most; a batch of more than ``batch_bytes`` makes the next ones smaller."""
        self._connect = connect
        self._batch_events = batch_events
        self._batch_bytes = batch_bytes
        self._limit = batch_events
        self._log: NotificationLog | None = None

    def connection(self) -> NotificationLog:
        """Return the open connection; raise Transient."""
        if self._log is None:
            self._log = self._connect()
        return self._log

    def current_event_id(self) -> int:
        """Return the id of the newest event; raise Transient."""
        with _refusal_may_pass():
            return self.connection().current_event_id()

    def first_event_id(self) -> int | None:
        """Return the id of the oldest event in the log; None if it is empty."""
        events = self.connection().next_events(0, 1)
        return events[0].eventId if events else None

    def read(self, after: int, *, limit: int | None = None) -> list[NotificationEvent]:
        """Return the next events, at most a batch; raise Transient, and LimitExceeded if a single event is too large."""
        limit = min(limit or self._limit, self._limit)
        while True:
            try:
                with _refusal_may_pass():
                    return self.connection().next_events(after, limit)
            except LimitExceeded:
                if limit <= 1:
                    raise
                limit = self._limit = limit // 2
            except Transient:  # perhaps the answer is too much work for the metastore
                self._limit = max(1, self._limit // 2)
                raise

    def adapt(self, size_bytes: int) -> None:
        """Keep batches of large events small: the last one has become ``size_bytes`` of records."""
        if size_bytes > self._batch_bytes:
            self._limit = max(_SMALLEST_BATCH, self._limit // 2)
        else:
            self._limit = min(self._batch_events, self._limit * 2)

    def close(self) -> None:
        """Close the connection; it is opened again on the next use."""
        if self._log is not None:
            self._log.close()
            self._log = None


def check_contiguous(after: int, events: Sequence[NotificationEvent]) -> None:
    """Raise GapDetected for a gap, and Inconsistent for ids that do not increase."""
    expected = after + 1
    for event in events:
        if event.eventId > expected:
            raise GapDetected(
                "events were removed from the notification log before they were relayed",
                expected=expected,
                found=event.eventId,
            )
        if event.eventId < expected:
            raise Inconsistent(
                "the notification log returned an event id twice or out of order",
                hint="Check that all addresses of the source belong to one metastore.",
                expected=expected,
                found=event.eventId,
            )
        expected += 1


@contextmanager
def _refusal_may_pass() -> Iterator[None]:
    """Convert a refusal to serve the log, as by an access rule or a version that is being replaced, into an error that may pass."""
    try:
        yield
    except Refused as error:
        raise MetastoreUnavailable(
            "the metastore refuses to serve its notification log",
            hint="Check the access rules of its notification API; it is tried again.",
            reason=str(error),
        ) from error
