"""Where an event comes from: its place in the log and what it is about, read before its content.

Kept apart from the content because of what follows when the content is bad: an event whose place is known becomes
Undecodable and the log goes on, one without a place cannot even be counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from handlers.decoding.fields import Fields
from handlers.events import Undecodable
from state.errors import BadInput


if TYPE_CHECKING:
    from handlers.decoding.limits import Limits
    from handlers.decoding.messages import JsonObject
    from handlers.decoding.tideline import Place


class Arrival(NamedTuple):
    """What the consumer knows about a record that does not say it itself: formats without event ids or times.

    ``event_id`` is made from the Kafka offset (offset + 1, since position 0 means "nothing applied"); ``time_s`` is the
    record's timestamp in seconds.
    """

    event_id: int
    time_s: int


class Origin(NamedTuple):
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


def origin_of(place: Place, envelope: JsonObject, limits: Limits, *, time_s: int = 0) -> Origin:
    """Read type, time and names of a notification; fields that cannot be read stay out, ``checked`` then tells why."""
    fields = Fields(envelope, limits)
    kind = envelope.get("eventType")
    return Origin(
        *place,
        time_s=_or(fields.number, "eventTime", time_s),
        kind=kind[:100] if type(kind) is str else "",
        catalog=_or(fields.name, "catName", None),
        db=_or(fields.name, "dbName", None),
        table=_or(fields.name, "tableName", None),
    )


def check_envelope(envelope: JsonObject, limits: Limits) -> None:
    """Raise MalformedEvent or LimitExceeded where ``origin_of`` had to leave something out."""
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
