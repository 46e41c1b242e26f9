"""Splits the message of a large event into messages that are valid events about some of its files or partitions.

A part is not a fragment of bytes: readers apply each part as it arrives and never hold the whole event in memory. Only lists are
split, parallel lists at the same index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from handlers.decoding.messages import write


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.decoding.messages import JsonObject


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
