"""Tideline's own record, ``tideline-1``: one notification event, or one part of it, as strict JSON.

The value is ``{"eventId", "part", "parts", "eventTime", "eventType", "catName", "dbName", "tableName", "message"}`` in this
order, so that a reader who only wants to know where a record stands reads the first bytes (``peek_position``). ``message`` is the
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

from handlers.decoding.header import FORMAT, FORMAT_HEADER, RecordPosition
from handlers.decoding.limits import DEFAULT_LIMITS, Limits
from handlers.decoding.messages import JsonObject, unpack, write
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.structs.notifications import NotificationEvent, WriteEventInfo


WRITE_KIND: Final = "WRITE"
_HEADERS: Final = ((FORMAT_HEADER, FORMAT.encode()),)
_FILE_SEPARATOR: Final = re.compile(r"\s*\]\s*")
_POSITION_DIGITS: Final = 16  # what the largest part and number of parts need beyond one digit each


@dataclass(frozen=True, slots=True)
class Record:
    """What goes to Kafka."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = _HEADERS


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
    Raises MalformedEvent only for a notification without a position in the log; bad content becomes a record that says so.
    """
    if type(notification.eventId) is not int or type(notification.eventTime) is not int:
        raise MalformedEvent("the notification has no event id or no time")
    sizes = (record_bytes_max, max(record_bytes_max, hard_bytes_max or 0))
    key = source_name.encode()
    try:
        message = unpack(notification.message, notification.messageFormat, limits)
        pieces = _pieces(notification, message, writes)
        first = _value(notification, RecordPosition(notification.eventId, 0, 1), pieces[0])
        if len(pieces) == 1 and len(first) <= record_bytes_max:
            return [Record(key, first)]
        pieces = [part for piece in pieces for part in _cut(notification, piece, sizes)]
    except BadInput as error:
        return [Record(key, _problem_value(notification, error, sizes[1]))]
    positions = (RecordPosition(notification.eventId, part, len(pieces)) for part in range(len(pieces)))
    return [
        Record(key, _bounded_value(notification, position, piece, sizes[1]))
        for position, piece in zip(positions, pieces, strict=True)
    ]


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
    whole = _value(notification, RecordPosition(notification.eventId, 0, 1), piece)
    if len(whole) + _POSITION_DIGITS <= sizes[0]:
        return [piece]
    envelope_bytes = len(whole) - len(write(piece.message)) + _POSITION_DIGITS
    messages = split(piece.kind, piece.message, sizes[0] - envelope_bytes, sizes[1] - envelope_bytes)
    return [piece._replace(message=message) for message in messages]


def _envelope(notification: NotificationEvent, position: RecordPosition, piece: _Piece) -> dict[str, Any]:
    return {
        "eventId": position.event_id,
        "part": position.part,
        "parts": position.parts,
        "eventTime": notification.eventTime,
        "eventType": piece.kind,
        "catName": piece.catalog,
        "dbName": piece.db,
        "tableName": piece.table,
        "message": piece.message,
    }


def _value(notification: NotificationEvent, position: RecordPosition, piece: _Piece) -> bytes:
    return write(_envelope(notification, position, piece))


def _bounded_value(
    notification: NotificationEvent, position: RecordPosition, piece: _Piece, bytes_max: int
) -> bytes:
    value = _value(notification, position, piece)
    if len(value) <= bytes_max:
        return value
    return write(_envelope(notification, position, piece) | {"message": None, "oversize": len(value)})


def _problem_value(notification: NotificationEvent, error: BadInput, bytes_max: int) -> bytes:
    """Say why the message cannot be read, with its text where there is room; names that are no Unicode are repaired."""
    event = notification
    kind, catalog = _printable(event.eventType) or "", _printable(event.catName)
    piece = _Piece(kind, catalog, _printable(event.dbName), _printable(event.tableName), {})
    problem: dict[str, Any] = {"message": None, "problem": _printable(f"[{error.code}] {error.message}")}
    envelope = _envelope(event, RecordPosition(event.eventId, 0, 1), piece) | problem
    raw = {"raw": _printable(event.message), "rawFormat": _printable(event.messageFormat)}
    value = write(envelope | raw)
    return value if len(value) <= bytes_max else write(envelope)


def _printable(text: str | None) -> str | None:
    return None if text is None else str(text).encode(errors="replace").decode()


_LISTS: Final[dict[str, tuple[str, ...]]] = {
    "WRITE": ("files",),
    "INSERT": ("files",),
    "CREATE_TABLE": ("files",),
    "ADD_PARTITION": ("partitions", "partitionListJson", "partitionFiles"),
    "ALTER_PARTITIONS": ("partitions", "partitionListJson"),
    "DROP_PARTITION": ("partitions",),
    "ALLOC_WRITE_ID_EVENT": ("txnIdList", "writeIdList"),
}
"""The lists of each kind that grow with its size; several lists of one kind are parallel."""

_Row = dict[str, Any]


def split(kind: str, message: JsonObject, part_bytes: int, part_bytes_hard: int) -> list[JsonObject]:
    """Cut ``message`` into parts that are written in ``part_bytes`` or less, in the order of its lists.

    Where what all parts repeat (the table object) fills most of ``part_bytes``, ``part_bytes_hard`` is used. A part holds at
    least one item, so one that cannot be cut may still be too long; a message without lists comes back as it is.
    """
    columns = [name for name in _LISTS.get(kind, ()) if message.get(name)]
    if not columns or not _parallel(message, columns):
        return [message]
    shared_bytes = len(write({**message, **dict.fromkeys(columns, ())}))
    room = part_bytes - shared_bytes
    if room < shared_bytes:
        room = max(room, part_bytes_hard - shared_bytes)
    rows = list(_rows(message, columns, room))
    parts = [
        {**message, **{name: [row[name] for row in rows[run]] for name in columns}}
        for run in _runs([_row_bytes(row) for row in rows], room)
    ]
    return _only_the_first_replaces(parts) if kind == "INSERT" else parts


def _parallel(message: JsonObject, columns: Sequence[str]) -> bool:
    lists = [message[name] for name in columns]
    return all(isinstance(values, list) and len(values) == len(lists[0]) for values in lists)


def _rows(message: JsonObject, columns: Sequence[str], room: int) -> Iterator[_Row]:
    """Yield the items of the parallel lists; a partition whose files alone exceed ``room`` comes in several."""
    for values in zip(*(message[name] for name in columns), strict=True):
        row = dict(zip(columns, values, strict=True))
        files = _own_files(row)
        if len(files) < 2 or _row_bytes(row) <= room:
            yield row
            continue
        owned = row["partitionFiles"]
        rest = room - _row_bytes({**row, "partitionFiles": {**owned, "files": ()}})
        for run in _runs([len(write(entry)) + 1 for entry in files], rest):
            yield {**row, "partitionFiles": {**owned, "files": files[run]}}


def _own_files(row: _Row) -> list[Any]:
    """Return the files of a partition's row, [] where it has none."""
    owned = row.get("partitionFiles")
    files = owned.get("files") if isinstance(owned, dict) else None
    return files if isinstance(files, list) else []


def _row_bytes(row: _Row) -> int:
    """The bytes that ``row`` adds to the lists, commas included."""
    return sum(len(write(value)) + 1 for value in row.values())


def _runs(sizes: Sequence[int], room: int) -> Iterator[slice]:
    """Cut into the longest runs whose sum is at most ``room``; a single item above it makes a run of its own."""
    start, used = 0, 0
    for index, size in enumerate(sizes):
        if index > start and used + size > room:
            yield slice(start, index)
            start, used = index, 0
        used += size
    yield slice(start, len(sizes))


def _only_the_first_replaces(parts: list[JsonObject]) -> list[JsonObject]:
    if parts[0].get("replace") is None:
        return parts
    return [parts[0], *(part | {"replace": "false"} for part in parts[1:])]
