"""Finds the position at which a relay starts: after the last record of its topic.

The end of the topic shows what the relay has written so far. It resumes in four steps, and writes nothing
before all of them have succeeded:

1. Find the last record of the topic (``topic_end``).
2. If the topic is empty (after retention, or recreated), use the stored position. If there is no stored
   position, use the configured start, and store it first: a relay that starts twice at "the current event"
   would otherwise omit the events in between.
3. Verify that the metastore is not behind this position.
4. Verify that the last event of the topic is the same event in the log. If it is not, this is another
   metastore, or one restored from a backup, whose ids mean other events. An event with only some parts in the
   topic needs the same parts again, because readers have already applied the first ones. A commit split
   differently now (after a compaction of a listed partition, or a change of ``record_bytes_max``) is
   completed without its write events, which readers then fetch for themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import orjson

from daemon.config.settings.clusters import StartAt
from daemon.kafka.offset_search import LocatedRecord, Records
from daemon.relay.topic_end import find_end
from daemon.sources.outbox import Outbox
from daemon.sources.outgoing_events import OutgoingEvent
from daemon.sources.partial_commits import complete_commit
from handlers.failpoints import failpoint
from state.errors import ConfigError, GapDetected, Inconsistent, StateCorrupt
from state.event_log.positions import Position
from state.store import Store


_KEY: Final = b"relay/"
_LOOK_BACK: Final = b"/look-back"
_SCANNED: Final = b"/scanned"
_SAME: Final = ("eventTime", "dbName", "tableName")
"""The fields to compare for a complete event, which an older version may have written."""


class StoredPosition:
    """The relay's own position, in case the topic is empty. May be older than the end of the topic."""

    def __init__(self, store: Store, topic: str) -> None:
        self._store = store
        self._key = _KEY + topic.encode()

    def load(self) -> Position | None:
        """Return the stored position.

        Raises StateCorrupt, and FilesUnavailable while the state file cannot be used.
        """
        self._store.recover()
        value = self._store.get(self._key)
        if value is None:
            return None
        try:
            return Position(int(value))
        except (ValueError, AssertionError) as error:
            raise StateCorrupt("the relay's stored position is not an event id", value=value[:40]) from error

    def load_look_back(self) -> int | None:
        """Return the id of the first event that the relay must read again because of open transactions; None
        if unknown.
        """
        value = self._store.get(self._key + _LOOK_BACK)
        return (int(value) or None) if value is not None and value.isdigit() else None

    def load_scanned(self) -> set[str]:
        """Return the tables into which programs write without events, as scans have found."""
        value = self._store.get(self._key + _SCANNED)
        return set(value.decode().split("\n")) if value else set()

    def save(
        self, position: Position, look_back: int | None = None, scanned: Collection[str] = frozenset()
    ) -> None:
        """Store the last complete event of ``position``, and the tables to scan.

        Raises FilesUnavailable while the state file cannot be used.
        """
        self._store.recover()
        with self._store.transaction() as transaction:
            transaction.put(self._key, str(position.applied_event_id).encode())
            if look_back is not None:
                transaction.put(self._key + _LOOK_BACK, str(look_back).encode())
            if scanned:
                transaction.put(self._key + _SCANNED, "\n".join(sorted(scanned)).encode())
        failpoint("relay.stored")

    def close(self) -> None:
        """Release the state file."""
        self._store.close()


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a relay: after ``position``, whose event has the time ``time_s`` if known."""

    position: Position
    time_s: int | None = None
    completion: OutgoingEvent | None = None
    """The rest of a partly written event that would now be split differently; written before everything
    else."""


def resume(records: Records, outbox: Outbox, stored: StoredPosition, start: StartAt) -> Start:
    """Find where the relay starts (the steps are in the module docstring).

    Raises Inconsistent and GapDetected (steps 3 and 4), ConfigError, StateCorrupt, Transient.
    """
    last = find_end(records, outbox, stored.load)  # 1.
    if last is None:
        position = stored.load()  # 2.
        if position is None:
            position = _configured_start(outbox, start)
            stored.save(position)
        outbox.require_not_behind(position.event_id)  # 3.
        return Start(position)
    outbox.require_not_behind(last.position.event_id)  # 3.
    completion = _check_same_event(outbox, last)  # 4.
    return Start(last.position, _field(last.value, "eventTime"), completion)


def _configured_start(outbox: Outbox, start: StartAt) -> Position:
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


def _check_same_event(outbox: Outbox, last: LocatedRecord) -> OutgoingEvent | None:
    """Check that the topic's last record is the same event in the log, unless the log no longer contains it.

    Returns the records that complete a partly written commit, if its parts would now be different.
    """
    event_id = last.position.event_id
    try:
        events = outbox.read(event_id - 1, limit=1)
    except GapDetected:
        events = []
    if not events:
        _require_complete(last)
        return None
    if last.position.complete:
        same = all(_field(last.value, name) == _field(events[0].records[-1].value, name) for name in _SAME)
    else:
        same = _is_split_alike(last, events[0])
    if not same and (completion := complete_commit(last, events[0])) is not None:
        return completion
    if not same:
        raise Inconsistent(
            "the last event of the topic differs from the event in the notification log",
            hint="The metastore is another one, or was restored from a backup: see "
            "docs/runbooks/relay.md#the-source-was-restored-from-a-backup. Or relay.record_bytes_max was "
            "changed while an event was partly written: restore the old value, let the relay continue, then "
            "change it.",
            event_id=event_id,
            part=last.position.part,
        )
    return None


def _require_complete(last: LocatedRecord) -> None:
    if not last.position.complete:
        raise GapDetected(
            "an event is partly written to the topic, and the notification log no longer contains its rest",
            expected=last.position.event_id,
            part=last.position.part + 1,
            found=None,
        )


def _is_split_alike(last: LocatedRecord, item: OutgoingEvent) -> bool:
    """Return whether the event still has the same parts, so that its remaining parts continue the topic."""
    part, parts = last.position.part, last.position.parts
    return len(item.records) == parts and bool(
        orjson.loads(item.records[part].value) == orjson.loads(last.value)
    )


def _field(value: bytes, name: str) -> Any:
    """Return one field of a ``tideline-1`` record; None if the record is unreadable."""
    try:
        return orjson.loads(value).get(name)
    except (orjson.JSONDecodeError, AttributeError):
        return None
