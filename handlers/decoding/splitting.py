"""Cutting a message that is too large for one record into messages of the same kind about less.

A part is not a fragment of bytes: it is a valid event about a subset (some of the partitions, some of the files), so a
reader applies each part as it comes and never has to hold a whole. That is why only lists are cut, and parallel lists are
cut at the same places. What a reader has to know: the parts of one ADD_PARTITION may name the same partition twice when its
files alone fill a record; the parts of one CREATE_TABLE all create the table; of the parts of an overwriting INSERT only the
first one replaces, the others add.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from handlers.decoding.messages import JsonObject, write


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
