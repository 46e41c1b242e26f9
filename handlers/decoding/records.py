"""Reading the two formats whose messages are the metastore's own: ``tideline-1`` records and notification objects.

A notification object is the metastore's NotificationEvent as JSON: ``{"eventId", "eventTime", "eventType", "catName"?,
"dbName"?, "tableName"?, "message", "messageFormat"?}``, the message as text in one of its encodings.

Order of reading: first the place, then type and names, then the content; what fails after the place is an Undecodable event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.decoding.fields import Fields
from handlers.decoding.messages import unpack
from handlers.decoding.notifications import canonical_kind, event_of, needs_message, unhandled
from handlers.decoding.origin import Arrival, Origin, check_envelope, origin_of
from handlers.decoding.tideline import Place, peek, read_place
from state.errors import BadInput, LimitExceeded, MalformedEvent


if TYPE_CHECKING:
    from handlers.decoding.limits import Limits
    from handlers.decoding.messages import JsonObject
    from handlers.events import Event, Undecodable


def tideline_event(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a ``tideline-1`` record; raise MalformedEvent where it has no place in the log."""
    place = read_place(envelope)
    origin = origin_of(place, envelope, limits, time_s=arrival.time_s if arrival else 0)
    try:
        check_envelope(envelope, limits)
        if not needs_message(origin.kind):
            return unhandled(origin)
        message = envelope.get("message")
        if type(message) is not dict:
            raise _missing_message(envelope)
    except BadInput as error:
        return origin.undecodable(error)
    return event_of(origin, message, limits)


def broken_tideline_event(value: bytes, error: BadInput, arrival: Arrival | None) -> Undecodable:
    """Return the event for a record whose JSON is broken; raise MalformedEvent where not even its place is readable."""
    try:
        place = peek(value)
    except BadInput:
        raise MalformedEvent("the record is no tideline-1 record", reason=error.message) from error
    return Origin(*place, time_s=arrival.time_s if arrival else 0, kind="").undecodable(error)


def notification_event(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a notification object; raise MalformedEvent where neither it nor ``arrival`` tells its place."""
    place = _notification_place(envelope, limits, arrival)
    found = origin_of(place, envelope, limits, time_s=arrival.time_s if arrival else 0)
    origin = found._replace(kind=canonical_kind(found.kind))
    try:
        check_envelope(envelope, limits)
        if not needs_message(origin.kind):
            return unhandled(origin)
        message = _message(envelope, limits)
    except BadInput as error:
        return origin.undecodable(error)
    return event_of(origin, message, limits)


def _notification_place(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Place:
    event_id = Fields(envelope, limits).number("eventId")
    if event_id is not None:
        return Place(event_id, 0, 1)
    if arrival is None:
        raise MalformedEvent("the notification has no event id")
    return Place(arrival.event_id, 0, 1)


def _message(envelope: JsonObject, limits: Limits) -> JsonObject:
    """Return the message; some publishers put it in as an object already."""
    message = envelope.get("message")
    if type(message) is dict:
        return message
    fields = Fields(envelope, limits)
    return unpack(fields.required_text("message"), fields.text("messageFormat"), limits)


def _missing_message(envelope: JsonObject) -> BadInput:
    """Say why a record came without its message; the relay has left the reason in it."""
    oversize, problem = envelope.get("oversize"), envelope.get("problem")
    if oversize is not None:
        return LimitExceeded(
            "the event was too large for one record and could not be cut",
            hint="Raise relay.record.bytes.max and the topic's max.message.bytes, then read the event again.",
            size_bytes=oversize,
        )
    if problem is not None:
        return MalformedEvent("the relay could not read the message", reason=str(problem)[:300])
    return MalformedEvent("the record has no message")
