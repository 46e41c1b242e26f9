"""Encodes notifications as Tideline's own records, ``tideline-1``: one event, or one part of an event, as strict JSON.

The value is ``{"eventId", "part", "parts", "eventTime", "eventType", "catName", "dbName", "tableName", "message"}``, in this order,
so that ``header.peek_position`` needs only the first bytes. ``message`` is the event's own JSON as an object. The record key is the
name of the source; the header ``tideline.format`` names the format.

In the notification log a commit does not name its files. The relay therefore passes the commit's write events, and they become
records of type ``WRITE`` in front of the commit, under the same event id. The message of the commit then has ``"enriched": true``.

Nothing is left out:

* A message that is too large for one record is split. A part is not a fragment of bytes but a valid event about some of the files or
  partitions. Readers apply each part as it arrives and never hold the whole event in memory. Only lists are split, parallel lists at
  the same index.
* A message that cannot be split becomes a record with ``"message": null`` and ``"oversize"``, its size in bytes.
* A message that cannot be read becomes a record with ``"message": null``, ``"problem"`` and, if there is room, ``"raw"``.

Both of the latter decode to Undecodable, so the reader decides what follows.

Readers of parts must know: the parts of one ADD_PARTITION may name a partition more than once if its files alone fill a record. All
parts of a CREATE_TABLE create the table. Of an overwriting INSERT only the first part replaces; the others add.
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
_POSITION_DIGITS: Final = 16  # digits of the largest part number and count, beyond one each


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = _HEADERS


class _Piece(NamedTuple):
    """The content of one record before it has a position: event type, names and message."""

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

    ``writes`` are the write events of a COMMIT_TXN in the metastore's order; None means that they were not fetched, and the
    commit is not marked as enriched. A value has at most ``record_bytes_max`` bytes. One that cannot be split further may have up
    to ``hard_bytes_max`` (default: the same), which must fit the topic's ``max.message.bytes``.
    Raises MalformedEvent only for a notification without a position in the log; unusable content becomes a record that reports it.
    """
    if type(notification.eventId) is not int or type(notification.eventTime) is not int:
        raise MalformedEvent("the notification lacks an event id or a time")
    sizes = (record_bytes_max, max(record_bytes_max, hard_bytes_max or 0))
    key = source_name.encode()
    try:
        message = unpack(notification.message, notification.messageFormat, limits)
        pieces = _list_pieces(notification, message, writes)
        first = _write_value(notification, RecordPosition(notification.eventId, 0, 1), pieces[0])
        if len(pieces) == 1 and len(first) <= record_bytes_max:
            return [Record(key, first)]
        pieces = [part for piece in pieces for part in _cut(notification, piece, sizes)]
    except BadInput as error:
        return [Record(key, _write_problem(notification, error, sizes[1]))]
    positions = (RecordPosition(notification.eventId, part, len(pieces)) for part in range(len(pieces)))
    return [
        Record(key, _write_bounded_value(notification, position, piece, sizes[1]))
        for position, piece in zip(positions, pieces, strict=True)
    ]


def _list_pieces(
    notification: NotificationEvent, message: JsonObject, writes: Sequence[WriteEventInfo] | None
) -> list[_Piece]:
    event = notification
    whole = _Piece(event.eventType, event.catName, event.dbName, event.tableName, message)
    if event.eventType != "COMMIT_TXN" or writes is None:
        return [whole]
    commit = whole._replace(message=message | {"enriched": True})
    return [*(_build_write_piece(message.get("txnid"), write_event) for write_event in writes), commit]


def build_write_message(txn_id: object, event: WriteEventInfo) -> JsonObject:
    """Return a write event under the field names of ``ACID_WRITE_EVENT`` (reference: JSONAcidWriteMessage)."""
    return {
        "txnid": txn_id,
        "writeId": event.writeId,
        "database": event.database,
        "table": event.table,
        "partition": event.partition or "",
        "tableObjJson": event.tableObj,
        "partitionObjJson": event.partitionObj,
        "files": [entry for entry in _FILE_SEPARATOR.split(event.files or "") if entry],
    }


def _build_write_piece(txn_id: object, event: WriteEventInfo) -> _Piece:
    return _Piece(WRITE_KIND, None, event.database, event.table, build_write_message(txn_id, event))


def _cut(notification: NotificationEvent, piece: _Piece, sizes: tuple[int, int]) -> list[_Piece]:
    whole = _write_value(notification, RecordPosition(notification.eventId, 0, 1), piece)
    if len(whole) + _POSITION_DIGITS <= sizes[0]:
        return [piece]
    envelope_bytes = len(whole) - len(write(piece.message)) + _POSITION_DIGITS
    messages = split_message(piece.kind, piece.message, sizes[0] - envelope_bytes, sizes[1] - envelope_bytes)
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


def _write_value(notification: NotificationEvent, position: RecordPosition, piece: _Piece) -> bytes:
    return write(_envelope(notification, position, piece))


def _write_bounded_value(
    notification: NotificationEvent, position: RecordPosition, piece: _Piece, bytes_max: int
) -> bytes:
    value = _write_value(notification, position, piece)
    if len(value) <= bytes_max:
        return value
    return write(_envelope(notification, position, piece) | {"message": None, "oversize": len(value)})


def _write_problem(notification: NotificationEvent, error: BadInput, bytes_max: int) -> bytes:
    """Return the record of a message that cannot be read: the reason and, if there is room, its text in valid Unicode."""
    event = notification
    kind, catalog = _to_printable(event.eventType) or "", _to_printable(event.catName)
    piece = _Piece(kind, catalog, _to_printable(event.dbName), _to_printable(event.tableName), {})
    problem: dict[str, Any] = {"message": None, "problem": _to_printable(f"[{error.code}] {error.message}")}
    envelope = _envelope(event, RecordPosition(event.eventId, 0, 1), piece) | problem
    raw = {"raw": _to_printable(event.message), "rawFormat": _to_printable(event.messageFormat)}
    value = write(envelope | raw)
    return value if len(value) <= bytes_max else write(envelope)


def _to_printable(text: str | None) -> str | None:
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
"""The lists of each event type that grow with the event; several lists of one type are parallel."""

_Row = dict[str, Any]


def split_message(kind: str, message: JsonObject, part_bytes: int, part_bytes_hard: int) -> list[JsonObject]:
    """Split ``message`` into parts of at most ``part_bytes`` each, in the order of its lists.

    If what all parts repeat (the table object) fills most of ``part_bytes``, the limit is ``part_bytes_hard``. A part holds at least
    one item and may therefore still be too long. A message without lists is returned unchanged.
    """
    columns = [name for name in _LISTS.get(kind, ()) if message.get(name)]
    if not columns or not _are_parallel(message, columns):
        return [message]
    shared_bytes = len(write({**message, **dict.fromkeys(columns, ())}))
    room = part_bytes - shared_bytes
    if room < shared_bytes:
        room = max(room, part_bytes_hard - shared_bytes)
    rows = list(_iterate_rows(message, columns, room))
    parts = [
        {**message, **{name: [row[name] for row in rows[run]] for name in columns}}
        for run in _cut_into_runs([_row_bytes(row) for row in rows], room)
    ]
    return _keep_first_replace(parts) if kind == "INSERT" else parts


def _are_parallel(message: JsonObject, columns: Sequence[str]) -> bool:
    lists = [message[name] for name in columns]
    return all(isinstance(values, list) and len(values) == len(lists[0]) for values in lists)


def _iterate_rows(message: JsonObject, columns: Sequence[str], room: int) -> Iterator[_Row]:
    """Yield the items of the parallel lists; a partition whose files alone exceed ``room`` is yielded several times."""
    for values in zip(*(message[name] for name in columns), strict=True):
        row = dict(zip(columns, values, strict=True))
        files = _own_files(row)
        if len(files) < 2 or _row_bytes(row) <= room:
            yield row
            continue
        owned = row["partitionFiles"]
        rest = room - _row_bytes({**row, "partitionFiles": {**owned, "files": ()}})
        for run in _cut_into_runs([len(write(entry)) + 1 for entry in files], rest):
            yield {**row, "partitionFiles": {**owned, "files": files[run]}}


def _own_files(row: _Row) -> list[Any]:
    """Return the files of a partition's row; [] if it has none."""
    owned = row.get("partitionFiles")
    files = owned.get("files") if isinstance(owned, dict) else None
    return files if isinstance(files, list) else []


def _row_bytes(row: _Row) -> int:
    """Return the bytes that ``row`` adds to the lists, commas included."""
    return sum(len(write(value)) + 1 for value in row.values())


def _cut_into_runs(sizes: Sequence[int], room: int) -> Iterator[slice]:
    """Yield the longest runs whose sum is at most ``room``; a larger item is a run of its own."""
    start, used = 0, 0
    for index, size in enumerate(sizes):
        if index > start and used + size > room:
            yield slice(start, index)
            start, used = index, 0
        used += size
    yield slice(start, len(sizes))


def _keep_first_replace(parts: list[JsonObject]) -> list[JsonObject]:
    if parts[0].get("replace") is None:
        return parts
    return [parts[0], *(part | {"replace": "false"} for part in parts[1:])]
