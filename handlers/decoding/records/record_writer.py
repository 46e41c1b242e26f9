"""Writes the records of one notification: the envelope around a message, and the limits on its size.

The writer splits the message of a large event into messages that are valid events about some of its files or
partitions. A part is not a fragment of bytes: readers apply each part as it arrives and never hold the whole
event in memory. It splits only lists, and parallel lists at the same index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from handlers.decoding.header import FORMAT, FORMAT_HEADER
from handlers.decoding.messages import JsonObject, write
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.structs.notifications import NotificationEvent


_HEADERS: Final = ((FORMAT_HEADER, FORMAT.encode()),)
_POSITION_DIGITS: Final = 16  # digits of the largest part number and count, beyond one each
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


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = _HEADERS


class Piece(NamedTuple):
    """The content of one record before it has a position: event type, names and message."""

    kind: str
    catalog: str | None
    db: str | None
    table: str | None
    message: JsonObject


class RecordWriter:
    """Writes the records of one notification.

    A record's value has at most ``record_bytes_max`` bytes. A value that cannot be split further may have up
    to ``hard_bytes_max`` (default: the same), which must fit the topic's ``max.message.bytes``.
    """

    def __init__(
        self,
        source_name: str,
        notification: NotificationEvent,
        *,
        record_bytes_max: int,
        hard_bytes_max: int | None = None,
    ) -> None:
        """Raise MalformedEvent for a notification without a position in the log."""
        if type(notification.eventId) is not int or type(notification.eventTime) is not int:
            raise MalformedEvent("the notification lacks an event id or a time")
        self.key = source_name.encode()
        self.event = notification
        self._soft = record_bytes_max
        self._hard = max(record_bytes_max, hard_bytes_max or 0)

    def bodies(self, piece: Piece) -> list[bytes]:
        """Return the values of the records, without positions: several values if ``piece`` is too large
        for one record. Raises BadInput.
        """
        body = write(self._fields(piece) | {"message": piece.message})
        if len(body) + self._head_bytes <= self._soft:
            return [body]
        envelope_bytes = len(body) + self._head_bytes - len(write(piece.message))
        room = (self._soft - envelope_bytes, self._hard - envelope_bytes)
        parts = split_message(piece.kind, piece.message, *room)
        return [self._bounded_body(piece, part) for part in parts]

    def problem(self, piece: Piece, error: BadInput) -> bytes:
        """Return the record value, without a position, for a piece that cannot be written: the reason and,
        if there is room, the piece's text.
        """
        catalog, db, table = (to_printable(name) for name in (piece.catalog, piece.db, piece.table))
        named = Piece(to_printable(piece.kind) or "", catalog, db, table, {})
        fields = self._fields(named) | {
            "message": None,
            "problem": to_printable(f"[{error.code}] {error.message}"),
        }
        raw = {"raw": to_printable(self.event.message), "rawFormat": to_printable(self.event.messageFormat)}
        body = write(fields | raw)
        return body if len(body) + self._head_bytes <= self._hard else write(fields)

    def record(self, body: bytes, part: int, parts: int) -> Record:
        """Return the record with ``body`` at its position."""
        return Record(self.key, self._head(part, parts) + body[1:])

    @property
    def _head_bytes(self) -> int:
        return len(self._head(0, 1)) - 1 + _POSITION_DIGITS

    def _head(self, part: int, parts: int) -> bytes:
        return b'{"eventId":%d,"part":%d,"parts":%d,' % (self.event.eventId, part, parts)

    def _fields(self, piece: Piece) -> dict[str, Any]:
        return {
            "eventTime": self.event.eventTime,
            "eventType": piece.kind,
            "catName": piece.catalog,
            "dbName": piece.db,
            "tableName": piece.table,
        }

    def _bounded_body(self, piece: Piece, message: JsonObject) -> bytes:
        body = write(self._fields(piece) | {"message": message})
        size = len(body) + self._head_bytes - _POSITION_DIGITS
        if size <= self._hard:
            return body
        return write(self._fields(piece) | {"message": None, "oversize": size})


def describe(event: NotificationEvent) -> Piece:
    """Return the piece of a notification, without its message."""
    return Piece(event.eventType, event.catName, event.dbName, event.tableName, {})


def to_printable(text: str | None) -> str | None:
    """Return ``text`` in valid Unicode."""
    return None if text is None else str(text).encode(errors="replace").decode()


def split_message(kind: str, message: JsonObject, part_bytes: int, part_bytes_hard: int) -> list[JsonObject]:
    """Split ``message`` into parts of at most ``part_bytes`` each, in the order of its lists.

    If the repeated content of all parts (the table object) fills most of ``part_bytes``, the limit is
    ``part_bytes_hard``. A part holds at least one item and may therefore still be too long. Returns a message
    without lists unchanged.
    """
    columns = [name for name in _LISTS.get(kind, ()) if message.get(name)]
    lists = [message[name] for name in columns]
    if not lists or any(not isinstance(values, list) or len(values) != len(lists[0]) for values in lists):
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
    if kind == "INSERT" and message.get("replace") is not None:  # only the first part replaces data
        return [parts[0], *(part | {"replace": "false"} for part in parts[1:])]
    return parts


def _iterate_rows(message: JsonObject, columns: Sequence[str], room: int) -> Iterator[_Row]:
    """Yield the items of the parallel lists;
    a partition whose files alone exceed ``room`` is yielded several times.
    """
    for values in zip(*(message[name] for name in columns), strict=True):
        row = dict(zip(columns, values, strict=True))
        owned: Any = row.get("partitionFiles")
        files = owned.get("files") if isinstance(owned, dict) else None
        if not isinstance(files, list) or len(files) < 2 or _row_bytes(row) <= room:
            yield row
            continue
        rest = room - _row_bytes({**row, "partitionFiles": {**owned, "files": ()}})
        for run in _cut_into_runs([len(write(entry)) + 1 for entry in files], rest):
            yield {**row, "partitionFiles": {**owned, "files": files[run]}}


def _row_bytes(row: _Row) -> int:
    """Return the bytes that ``row`` adds to the lists, commas included."""
    return sum(len(write(value)) + 1 for value in row.values())


def _cut_into_runs(sizes: Sequence[int], room: int) -> Iterator[slice]:
    """Yield the longest runs whose sum is at most ``room``; a larger item is a separate run."""
    start, used = 0, 0
    for index, size in enumerate(sizes):
        if index > start and used + size > room:
            yield slice(start, index)
            start, used = index, 0
        used += size
    yield slice(start, len(sizes))
