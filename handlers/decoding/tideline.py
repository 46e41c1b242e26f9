"""Tideline's own record, ``tideline-1``: one notification event, or one part of it, as strict JSON.

The value is ``{"eventId", "part", "parts", "eventTime", "eventType", "catName", "dbName", "tableName", "message"}`` in this
order, so that a reader who only wants to know where a record stands reads the first bytes (``peek``). ``message`` is the
event's own JSON as an object. The key is the source's name; the header ``tideline.format`` names the format.

A commit does not name its files in the notification log, so the relay hands its write events in, and they become records of
the type ``WRITE`` in front of the commit, under the same event id; the commit's message then has ``"enriched": true``.

Nothing is left out: what is too large for one record is cut into parts (``splitting``); what cannot be cut goes as a record
with ``"message": null`` and ``"oversize"``, its size in bytes; a message that cannot be read goes with ``"message": null``,
``"problem"`` and, where it fits, ``"raw"``. Both decode to Undecodable, so that the reader decides what to do about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from handlers.decoding.limits import DEFAULT_LIMITS, Limits
from handlers.decoding.messages import JsonObject, read_object, unpack, write
from handlers.decoding.splitting import split
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.structs import NotificationEvent, WriteEventInfo


FORMAT: Final = "tideline-1"
FORMAT_HEADER: Final = "tideline.format"
WRITE_KIND: Final = "WRITE"
_HEADERS: Final = ((FORMAT_HEADER, FORMAT.encode()),)
_PLACE: Final = re.compile(rb'\{"eventId":(\d{1,19}),"part":(\d{1,9}),"parts":(\d{1,9}),')
_FILE_SEPARATOR: Final = re.compile(r"\s*\]\s*")
_PLACE_DIGITS: Final = 16  # what the largest part and number of parts need beyond one digit each


@dataclass(frozen=True, slots=True)
class Record:
    """What goes to Kafka."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = _HEADERS


class Place(NamedTuple):
    """Where a record stands in the topic; part counts from 0."""

    event_id: int
    part: int
    parts: int


class _Piece(NamedTuple):
    """One record to be: its type, what it is about, and its message."""

    kind: str
    catalog: str | None
    db: str | None
    table: str | None
    message: JsonObject


def encode(  # noqa: PLR0913 -- the limits are keyword arguments with defaults
    source_name: str,
    notification: NotificationEvent,
    writes: Sequence[WriteEventInfo] | None,
    *,
    record_bytes_max: int,
    hard_bytes_max: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Record]:
    """Return the records of one notification, in the order of their parts.

    ``writes`` are the write events of a COMMIT_TXN, in the metastore's order; None where they were not fetched (then the
    commit is not marked as enriched). Values are at most ``record_bytes_max`` long; one that cannot be cut further may be
    up to ``hard_bytes_max`` (default: the same), which has to fit the topic's ``max.message.bytes``.
    Raises MalformedEvent only for a notification without a place in the log; bad content becomes a record that says so.
    """
    if type(notification.eventId) is not int or type(notification.eventTime) is not int:
        raise MalformedEvent("the notification has no event id or no time")
    sizes = (record_bytes_max, max(record_bytes_max, hard_bytes_max or 0))
    key = source_name.encode()
    try:
        message = unpack(notification.message, notification.messageFormat, limits)
        pieces = _pieces(notification, message, writes)
        first = _value(notification, Place(notification.eventId, 0, 1), pieces[0])
        if len(pieces) == 1 and len(first) <= record_bytes_max:
            return [Record(key, first)]
        pieces = [part for piece in pieces for part in _cut(notification, piece, sizes)]
    except BadInput as error:
        return [Record(key, _problem_value(notification, error, sizes[1]))]
    places = (Place(notification.eventId, part, len(pieces)) for part in range(len(pieces)))
    return [
        Record(key, _bounded_value(notification, place, piece, sizes[1]))
        for place, piece in zip(places, pieces, strict=True)
    ]


def peek(value: bytes) -> Place:
    """Return where a record stands, from its first bytes where Tideline wrote it; raise MalformedEvent.

    Meant for bisection of a topic, so it does not look at the rest: a place is no promise that the record can be decoded.
    """
    found = _PLACE.match(value)
    if found is not None:
        return _checked_place(*map(int, found.groups()))
    return read_place(read_object(value))


def read_place(envelope: JsonObject) -> Place:
    """Return where the record of ``envelope`` stands; raise MalformedEvent."""
    return _checked_place(envelope.get("eventId"), envelope.get("part"), envelope.get("parts"))


def _checked_place(event_id: object, part: object, parts: object) -> Place:
    if type(event_id) is not int or type(part) is not int or type(parts) is not int:
        raise MalformedEvent("the record names no event id, part and number of parts")
    if not 0 <= event_id < 2**63 or not 0 <= part < parts:
        raise MalformedEvent("the record's place is impossible", event_id=event_id, part=part, parts=parts)
    return Place(event_id, part, parts)


def _pieces(
    notification: NotificationEvent, message: JsonObject, writes: Sequence[WriteEventInfo] | None
) -> list[_Piece]:
    event = notification
    whole = _Piece(event.eventType, event.catName, event.dbName, event.tableName, message)
    if event.eventType != "COMMIT_TXN" or writes is None:
        return [whole]
    commit = whole._replace(message=message | {"enriched": True})
    return [*(_write_piece(message.get("txnid"), write_event) for write_event in writes), commit]


def _write_piece(txn_id: object, event: WriteEventInfo) -> _Piece:
    """Say what one write event says, in the words of ``ACID_WRITE_EVENT`` (reference: JSONAcidWriteMessage)."""
    message: JsonObject = {
        "txnid": txn_id,
        "writeId": event.writeId,
        "database": event.database,
        "table": event.table,
        "partition": event.partition or "",
        "tableObjJson": event.tableObj,
        "partitionObjJson": event.partitionObj,
        "files": [entry for entry in _FILE_SEPARATOR.split(event.files or "") if entry],
    }
    return _Piece(WRITE_KIND, None, event.database, event.table, message)


def _cut(notification: NotificationEvent, piece: _Piece, sizes: tuple[int, int]) -> list[_Piece]:
    whole = _value(notification, Place(notification.eventId, 0, 1), piece)
    if len(whole) + _PLACE_DIGITS <= sizes[0]:
        return [piece]
    envelope_bytes = len(whole) - len(write(piece.message)) + _PLACE_DIGITS
    messages = split(piece.kind, piece.message, sizes[0] - envelope_bytes, sizes[1] - envelope_bytes)
    return [piece._replace(message=message) for message in messages]


def _envelope(notification: NotificationEvent, place: Place, piece: _Piece) -> dict[str, Any]:
    return {
        "eventId": place.event_id,
        "part": place.part,
        "parts": place.parts,
        "eventTime": notification.eventTime,
        "eventType": piece.kind,
        "catName": piece.catalog,
        "dbName": piece.db,
        "tableName": piece.table,
        "message": piece.message,
    }


def _value(notification: NotificationEvent, place: Place, piece: _Piece) -> bytes:
    return write(_envelope(notification, place, piece))


def _bounded_value(notification: NotificationEvent, place: Place, piece: _Piece, bytes_max: int) -> bytes:
    value = _value(notification, place, piece)
    if len(value) <= bytes_max:
        return value
    return write(_envelope(notification, place, piece) | {"message": None, "oversize": len(value)})


def _problem_value(notification: NotificationEvent, error: BadInput, bytes_max: int) -> bytes:
    """Say why the message cannot be read, with its text where there is room; names that are no Unicode are repaired."""
    event = notification
    kind, catalog = _printable(event.eventType) or "", _printable(event.catName)
    piece = _Piece(kind, catalog, _printable(event.dbName), _printable(event.tableName), {})
    problem: dict[str, Any] = {"message": None, "problem": _printable(f"[{error.code}] {error.message}")}
    envelope = _envelope(event, Place(event.eventId, 0, 1), piece) | problem
    raw = {"raw": _printable(event.message), "rawFormat": _printable(event.messageFormat)}
    value = write(envelope | raw)
    return value if len(value) <= bytes_max else write(envelope)


def _printable(text: str | None) -> str | None:
    return None if text is None else str(text).encode(errors="replace").decode()
