"""Wire formats: from Kafka records to events, and from notifications to Kafka records.

``decode`` reads four formats and recognises which; ``encode`` writes Tideline's own. See ``DESIGN.md`` for what is promised
and ``docs/FORMATS.md`` for the formats themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from handlers.decoding import apiary, notifications
from handlers.decoding.header import FORMAT, FORMAT_HEADER, Arrival
from handlers.decoding.limits import DEFAULT_LIMITS, Limits
from handlers.decoding.messages import read_object
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from handlers.decoding.messages import JsonObject
    from handlers.events import Event


Format = Literal["tideline-1", "hms", "apiary", "apiary-sns"]
FORMATS: Final[tuple[Format, ...]] = ("tideline-1", "hms", "apiary", "apiary-sns")

_DECODERS: Final[Mapping[Format, Callable[[JsonObject, Limits, Arrival | None], Event]]] = {
    "tideline-1": notifications.tideline_event,
    "hms": notifications.notification_event,
    "apiary": apiary.listener_event,
    "apiary-sns": apiary.sns_event,
}


def decode(
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] | None = (),
    *,
    format: Format | Literal["auto"] = "auto",  # noqa: A002 -- the word of the configuration: source.format
    limits: Limits = DEFAULT_LIMITS,
    arrival: Arrival | None = None,
) -> Event:
    """Return the event of one Kafka record.

    ``arrival`` places records of formats without event ids or times; such a record without it is malformed.
    A record whose position in the log is known but whose content is bad is an Undecodable event. Raises MalformedEvent, and
    nothing else, for one without a position: what that means (dead letter, stop) is the caller's to decide.
    """
    if value is None:
        raise MalformedEvent("the record has no value")
    declared = _declared(headers)
    ours = declared or (format if format != "auto" else None)
    try:
        if len(value) > limits.record_bytes:
            raise MalformedEvent(
                "the record is larger than its limit", size_bytes=len(value), limit_bytes=limits.record_bytes
            )
        envelope = read_object(value, limits.json_depth + 1)  # the message and its envelope
    except BadInput as error:
        if ours == FORMAT:
            return notifications.broken_tideline_event(value, error, arrival)
        raise _as_malformed(error) from error
    try:
        return _DECODERS[ours or recognise(envelope)](envelope, limits, arrival)
    except BadInput as error:
        raise _as_malformed(error) from error


def recognise(envelope: JsonObject) -> Format:
    """Tell the format of a record from its fields; raise MalformedEvent where it is none of ours (reference: peers §6.6)."""
    kind = envelope.get("eventType")
    if "part" in envelope and "parts" in envelope and "eventId" in envelope:
        return "tideline-1"
    if "protocolVersion" in envelope or ("Message" in envelope and "TopicArn" in envelope):
        return "apiary-sns"
    if type(kind) is str and kind.startswith("ON_"):
        return "apiary"
    if type(kind) is str and ("message" in envelope or "messageFormat" in envelope):
        return "hms"
    raise MalformedEvent("the record has none of the known formats", fields=sorted(envelope)[:20])


def carries_transactions(format: Format) -> bool:  # noqa: A002 -- as in ``decode``
    """Tell whether a format has the events without which ACID tables cannot be replicated."""
    return format in {"tideline-1", "hms"}


def _declared(headers: Iterable[tuple[str, bytes | None]] | None) -> Format | None:
    """Return the format that a header names; one that is newer than this program is refused rather than misread."""
    for name, value in headers or ():
        if name != FORMAT_HEADER:
            continue
        if value == FORMAT.encode():
            return "tideline-1"
        raise MalformedEvent(
            "the record has a format that this version cannot read",
            hint="Upgrade this Tideline, or downgrade the relay.",
            format=repr(value)[:60],
        )
    return None


def _as_malformed(error: BadInput) -> MalformedEvent:
    if isinstance(error, MalformedEvent):
        return error
    return MalformedEvent(error.message, hint=error.hint, **error.context)
