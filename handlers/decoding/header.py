"""Where an event comes from: its position in the log and what it is about, read before its content.

Kept apart from the content because of what follows when the content is bad: an event whose place is known becomes
Undecodable and the log goes on, one without a place cannot even be counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from handlers.decoding.fields import Fields
from handlers.decoding.messages import read_object
from handlers.events import Undecodable
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from handlers.decoding.limits import Limits
    from handlers.decoding.messages import JsonObject


FORMAT: Final = "tideline-1"
FORMAT_HEADER: Final = "tideline.format"
_POSITION: Final = re.compile(rb'\{"eventId":(\d{1,19}),"part":(\d{1,9}),"parts":(\d{1,9}),')


class RecordPosition(NamedTuple):
    """Where a record stands in the topic; part counts from 0."""

    event_id: int
    part: int
    parts: int


class Arrival(NamedTuple):
    """What the consumer knows about a record that does not say it itself: formats without event ids or times.

    ``event_id`` is made from the Kafka offset (offset + 1, since position 0 means "nothing applied"); ``time_s`` is the
    record's timestamp in seconds.
    """

    event_id: int
    time_s: int


class EventHeader(NamedTuple):
    """The fields that every event has, in the words of ``handlers.events.Event``."""

    event_id: int
    part: int
    parts: int
    time_s: int
    kind: str
    catalog: str | None = None
    db: str | None = None
    table: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the keyword arguments of an event."""
        return self._asdict()

    def undecodable(self, error: BadInput) -> Undecodable:
        """Return the event that says that this one cannot be used, and why."""
        return Undecodable(**self.fields(), error=error)


def read_header(
    position: RecordPosition, envelope: JsonObject, limits: Limits, *, time_s: int = 0
) -> EventHeader:
    """Read type, time and names of a notification; fields that cannot be read stay out, ``checked`` then tells why."""
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
    """Raise MalformedEvent or LimitExceeded where ``read_header`` had to leave something out."""
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
    """Return where a record stands, from its first bytes where Tideline wrote it; raise MalformedEvent.

    Meant for bisection of a topic, so it does not look at the rest: a place is no promise that the record can be decoded.
    """
    found = _POSITION.match(value)
    if found is not None:
        return _check_position(*map(int, found.groups()))
    return read_position(read_object(value))


def read_position(envelope: JsonObject) -> RecordPosition:
    """Return where the record of ``envelope`` stands; raise MalformedEvent."""
    return _check_position(envelope.get("eventId"), envelope.get("part"), envelope.get("parts"))


def _check_position(event_id: object, part: object, parts: object) -> RecordPosition:
    if type(event_id) is not int or type(part) is not int or type(parts) is not int:
        raise MalformedEvent("the record names no event id, part and number of parts")
    if not 0 <= event_id < 2**63 or not 0 <= part < parts:
        raise MalformedEvent("the record's place is impossible", event_id=event_id, part=part, parts=parts)
    return RecordPosition(event_id, part, parts)
