"""Where a relay begins: behind the last record of its topic.

The topic is the relay's memory: a record is there or it is not, whatever the relay believed when it was killed. Only where
the topic is empty (retention, or somebody made it anew) does the stored position count, and only where that is missing too,
the configured start, which is stored before anything is relayed: a relay that starts at "the current event" twice would
otherwise leave out what happened in between.

Two things are proven before anything is written. The metastore must not be behind the topic, and the event that the topic
ends with must be the same event in the log: otherwise this is another metastore, or one restored from a backup, whose ids
mean other events. And an event whose parts are only partly in the topic is completed with the very same parts, since readers
have applied the first ones already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from daemon.kafka.offset_search import LocatedRecord, Records, find_last
from handlers.failpoints import failpoint
from state.errors import ConfigError, GapDetected, Inconsistent, StateCorrupt
from state.positions import Position


if TYPE_CHECKING:
    from daemon.relay.settings import StartAt
    from daemon.sources.outbox import Outbox, OutgoingEvent
    from state.store import Store


_KEY: Final = b"relay/"
_SAME: Final = ("eventTime", "dbName", "tableName")
"""What is compared of an event that is complete: it may have been written by an older version of this program."""


class StoredPosition:
    """The relay's own position, for the day on which the topic is empty. May lag behind the topic."""

    def __init__(self, store: Store, topic: str) -> None:
        self._store = store
        self._key = _KEY + topic.encode()

    def load(self) -> Position | None:
        """Return the stored position; raise StateCorrupt."""
        value = self._store.get(self._key)
        if value is None:
            return None
        try:
            return Position(int(value))
        except (ValueError, AssertionError) as error:
            raise StateCorrupt("the relay's stored position is no event id", value=value[:40]) from error

    def save(self, position: Position) -> None:
        """Store the last whole event of ``position``."""
        with self._store.transaction() as transaction:
            transaction.put(self._key, str(position.applied_event_id).encode())
        failpoint("relay.stored")


@dataclass(frozen=True, slots=True)
class Start:
    """Where to go on: after ``position``, of an event at ``time_s`` where that is known."""

    position: Position
    time_s: int | None = None


def resume(records: Records, outbox: Outbox, stored: StoredPosition, start: StartAt) -> Start:
    """Return where the relay goes on.

    Raises Inconsistent and GapDetected (module docstring), ConfigError, StateCorrupt, Transient.
    """
    last = find_last(records)
    if last is None:
        position = stored.load()
        if position is None:
            position = _configured(outbox, start)
            stored.save(position)
        outbox.require_not_behind(position.event_id)
        return Start(position)
    outbox.require_not_behind(last.position.event_id)
    _check_same_event(outbox, last)
    return Start(last.position, _field(last.value, "eventTime"))


def _configured(outbox: Outbox, start: StartAt) -> Position:
    current = outbox.current_event_id()
    if start == "current":
        return Position(current)
    if start == "earliest":
        return Position.before(outbox.first_event_id() or current + 1)
    if not 1 <= start <= current + 1:
        raise ConfigError(
            "relay.start names an event that the source does not have", start=start, current_event_id=current
        )
    return Position.before(start)


def _check_same_event(outbox: Outbox, last: LocatedRecord) -> None:
    """Compare the topic's last record with the log; nothing to compare where the log has been cleaned up to it."""
    event_id = last.position.event_id
    try:
        found = outbox.read(event_id - 1, limit=1)
    except GapDetected:
        found = []
    if not found:
        _require_complete(last)
        return
    if last.position.complete:
        same = all(_field(last.value, name) == _field(found[0].records[-1].value, name) for name in _SAME)
    else:
        same = _written_alike(last, found[0])
    if not same:
        raise Inconsistent(
            "the topic's last event is another one in the notification log",
            hint="It is another metastore or one restored from a backup; or relay.record.bytes.max was changed "
            "while an event was half written: set it back, let the relay go on, then change it.",
            event_id=event_id,
            part=last.position.part,
        )


def _require_complete(last: LocatedRecord) -> None:
    if not last.position.complete:
        raise GapDetected(
            "an event is half written to the topic, and its rest has left the notification log",
            expected=last.position.event_id,
            part=last.position.part + 1,
            found=None,
        )


def _written_alike(last: LocatedRecord, item: OutgoingEvent) -> bool:
    """Whether the log's event is cut as it was before, so that its remaining parts go on where the topic ends."""
    part, parts = last.position.part, last.position.parts
    return len(item.records) == parts and bool(
        orjson.loads(item.records[part].value) == orjson.loads(last.value)
    )


def _field(value: bytes, name: str) -> Any:
    """Read one field of our own record; None where it cannot be read (a record of somebody else)."""
    try:
        return orjson.loads(value).get(name)
    except (orjson.JSONDecodeError, AttributeError):
        return None
