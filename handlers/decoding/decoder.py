"""Decodes Kafka records of four formats to events,
and recognises the format if the record does not declare it.

An event whose header can be read but whose content cannot becomes ``Undecodable``: the log continues, and
only the table that the event names is affected. A record without a position in the log raises MalformedEvent,
because its event is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from handlers.decoding import apiary, notifications
from handlers.decoding.header import FORMAT, FORMAT_HEADER, Arrival
from handlers.decoding.messages import DEFAULT_LIMITS, JsonObject, Limits, read_object
from handlers.events import Event
from state.errors import BadInput, MalformedEvent


Format = Literal["tideline-1", "hms", "apiary", "apiary-sns"]

_DECODERS: Final[Mapping[Format, Callable[[JsonObject, Limits, Arrival | None], Event]]] = {
    "tideline-1": notifications.decode_tideline_record,
    "hms": notifications.decode_notification,
    "apiary": apiary.decode_listener_record,
    "apiary-sns": apiary.decode_sns_message,
}


def decode(
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] | None = (),
    *,
    format: Format | Literal["auto"] = "auto",  # noqa: A002 -- named as in the configuration: source.format
    limits: Limits = DEFAULT_LIMITS,
    arrival: Arrival | None = None,
) -> Event:
    """Return the event of one Kafka record.

    ``arrival`` supplies the position and time for formats that carry none; without it, such a record is
    malformed. A record whose position is known but whose content is unusable becomes an Undecodable event. A
    record without a position raises MalformedEvent, and nothing else; the caller decides on the consequence
    (a dead letter, or a stop).
    """
    if value is None:
        raise MalformedEvent("the record has no value")
    declared = _read_declared_format(headers)
    ours = declared or (format if format != "auto" else None)
    try:
        if len(value) > limits.record_bytes:
            raise MalformedEvent(
                "the record exceeds its limit", size_bytes=len(value), limit_bytes=limits.record_bytes
            )
        envelope = read_object(value, limits.json_depth + 1)  # the message and its envelope
    except BadInput as error:
        if ours == FORMAT:
            return notifications.decode_broken_record(value, error, arrival)
        raise _to_malformed(error) from error
    try:
        return _DECODERS[ours or recognise(envelope)](envelope, limits, arrival)
    except BadInput as error:
        raise _to_malformed(error) from error


def recognise(envelope: JsonObject) -> Format:
    """Return the format of a record, judged by its fields (reference:
    event-listeners.md §3); raise MalformedEvent if none matches.
    """
    kind = envelope.get("eventType")
    if "part" in envelope and "parts" in envelope and "eventId" in envelope:
        return "tideline-1"
    if "protocolVersion" in envelope or ("Message" in envelope and "TopicArn" in envelope):
        return "apiary-sns"
    if type(kind) is str and kind.startswith("ON_"):
        return "apiary"
    if type(kind) is str and ("message" in envelope or "messageFormat" in envelope):
        return "hms"
    raise MalformedEvent("the record matches none of the supported formats", fields=sorted(envelope)[:20])


def _read_declared_format(headers: Iterable[tuple[str, bytes | None]] | None) -> Format | None:
    """Return the format that a header declares;
    raise MalformedEvent for one that this version does not know.
    """
    for name, value in headers or ():
        if name != FORMAT_HEADER:
            continue
        if value == FORMAT.encode():
            return "tideline-1"
        raise MalformedEvent(
            "the record format is not supported by this version",
            hint="Upgrade this Tideline or downgrade the relay.",
            format=repr(value)[:60],
        )
    return None


def _to_malformed(error: BadInput) -> MalformedEvent:
    if isinstance(error, MalformedEvent):
        return error
    return MalformedEvent(error.message, hint=error.hint, **error.context)
