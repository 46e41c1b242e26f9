"""The header of an event: its position in the log, its type, time and names. It is read before the content.

The two are separate because they fail differently: an event with a header and unusable content becomes
Undecodable and the log continues; without a position, Tideline cannot even count the event.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from handlers.decoding.fields import Fields
from handlers.decoding.messages import JsonObject, Limits, read_object
from handlers.events import Undecodable
from state.errors import BadInput, MalformedEvent


FORMAT: Final = "tideline-1"
FORMAT_HEADER: Final = "tideline.format"
WRITE_KIND: Final = "WRITE"
UNREADABLE_KIND: Final = "UNREADABLE"
"""Type of an event that the metastore could not return to the relay, so that its real type is unknown."""
LOST_KIND: Final = "EVENTS_LOST"
"""Type of the record with which a relay continues after a gap."""
PARTS_MAX: Final = 1_000_000_000
"""Most parts of one event; positions are stored in 32 bits."""
_POSITION: Final = re.compile(rb'\{"eventId":(\d{1,19}),"part":(\d{1,9}),"parts":(\d{1,9}),')


class RecordPosition(NamedTuple):
    """The position of a record in the topic; ``part`` counts from 0."""

    event_id: int
    part: int
    parts: int


class Arrival(NamedTuple):
    """Event id and time of a record whose format carries neither, as the consumer derives them from Kafka.

    ``event_id`` is the offset plus 1, because position 0 means "nothing applied"; ``time_s`` is the record's
    timestamp in seconds.
    """

    event_id: int
    time_s: int


class EventHeader(NamedTuple):
    """The fields that every event has, named as in ``handlers.events.Event``."""

    event_id: int
    part: int
    parts: int
    time_s: int
    kind: str
    catalog: str | None = None
    db: str | None = None
    table: str | None = None
    unpacked_bytes: int = 0

    def fields(self) -> dict[str, Any]:
        """Return the keyword arguments of an event."""
        return self._asdict()

    def to_undecodable(self, error: BadInput) -> Undecodable:
        """Return an Undecodable event with this header and the reason."""
        return Undecodable(**self.fields(), error=error)


def read_header(
    position: RecordPosition, envelope: JsonObject, limits: Limits, *, time_s: int = 0
) -> EventHeader:
    """Read type, time and names of a notification.

    Leaves out fields that cannot be read; ``check_header`` then raises the reason.
    """
    fields = Fields(envelope, limits)
    kind = envelope.get("eventType")
    return EventHeader(
        *position,
        time_s=_or(fields.number, "eventTime", time_s),
        kind=kind[:100] if type(kind) is str else "",
        catalog=_or(fields.name, "catName", None),
        db=_or(fields.name, "dbName", None),
        table=_or(fields.name, "tableName", None),
    )


def check_header(envelope: JsonObject, limits: Limits) -> None:
    """Raise MalformedEvent or LimitExceeded if ``read_header`` had to leave out a field."""
    fields = Fields(envelope, limits)
    fields.required_text("eventType")
    fields.number("eventTime")
    for name in ("catName", "dbName", "tableName"):
        fields.name(name)


def _or(read: Any, name: str, default: Any) -> Any:
    try:
        value = read(name)
    except BadInput:
        return default
    return default if value is None else value


def peek_position(value: bytes) -> RecordPosition:
    """Return the position of a record, from its first bytes if Tideline wrote it; raise MalformedEvent.

    The offset search uses this. The function does not read the rest of the record, which may still be
    impossible to decode.
    """
    match = _POSITION.match(value)
    if match is not None:
        return _check_position(*map(int, match.groups()))
    return read_position(read_object(value))


def read_position(envelope: JsonObject) -> RecordPosition:
    """Return the position of the record with this ``envelope``; raise MalformedEvent."""
    return _check_position(envelope.get("eventId"), envelope.get("part"), envelope.get("parts"))


def _check_position(event_id: object, part: object, parts: object) -> RecordPosition:
    if type(event_id) is not int or type(part) is not int or type(parts) is not int:
        raise MalformedEvent("the record lacks an event id, a part or the number of parts")
    if not 0 <= event_id < 2**63 or not 0 <= part < parts <= PARTS_MAX:
        raise MalformedEvent(
            "the record's position is out of range", event_id=event_id, part=part, parts=parts
        )
    return RecordPosition(event_id, part, parts)
