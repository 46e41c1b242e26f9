"""Table properties of timelines, byte for byte as Lens writes them.

One timeline is a handful of keys under ``…timeline.cache.<PERIOD>.<column>.``. A long list becomes chunks of
at most 3,999 characters, because old metastores keep property values in VARCHAR(4000). Properties rarely
disappear from a metastore: the form of an empty list is size 0, and stale higher chunks do not count
(reference: lens-timelines.md §1.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from state.errors import TimelineInconsistent
from state.timelines.periods import UpdatePeriod


DDL_TIME: Final = "transient_lastDdlTime"
"""Set by the metastore, or by the writer of a table."""
CACHE: Final = "cube.storagetable.partition.timeline.cache."
PRESENT: Final = CACHE + "present"
"""One flag per table: its timelines are in its properties."""
APPLIED_EVENT: Final = CACHE + "tideline.event.id"
"""Written by Tideline only: the last metastore event that the properties reflect."""
TIME_COLUMNS: Final = "cube.storagetable.time.partcols"
PARTITION_PERIOD: Final = "cube.storagetable.partition.update.period"
"""Parameter of a partition: its update period."""
STORAGE_CLASS: Final = "storage.class"
CHUNK_LENGTH_MAX: Final = 3_999
CHUNKS_MAX: Final = 1_000_000
_SIZE_DIGITS_MAX: Final = 20
"""Python raises ValueError for thousands of digits."""


def build_key_prefix(period: UpdatePeriod, column: str) -> str:
    """Return the common prefix of one timeline's keys; ``column`` has the spelling of ``time.partcols``."""
    return f"{CACHE}{period.lens_name}.{column}."


def find_other_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of properties that differ and belong
    neither to timelines nor to every write of a table, sorted.
    """
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return sorted(key for key in changed if not key.startswith(CACHE) and key != DDL_TIME)


def is_present(properties: Mapping[str, str]) -> bool:
    """Whether the table's timelines are in its properties (``true`` in upper or lower case, LENS-416)."""
    return properties.get(PRESENT, "").lower() == "true"


def read_time_columns(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the time columns that the table declares, in its spelling."""
    return tuple(name.strip() for name in properties.get(TIME_COLUMNS, "").split(",") if name.strip())


def select_keys(properties: Mapping[str, str], period: UpdatePeriod, column: str) -> dict[str, str]:
    """Return the keys of one timeline without their prefix.

    The exact spelling of the column wins. Keys in another spelling count only if the exact one has no key at
    all.
    """
    start = build_key_prefix(period, column)
    exact = {key[len(start) :]: value for key, value in properties.items() if key.startswith(start)}
    if exact:
        return exact
    lower = start.lower()
    return {key[len(start) :]: value for key, value in properties.items() if key.lower().startswith(lower)}


def write_list(key: str, items: Iterable[str], *, length_max: int = CHUNK_LENGTH_MAX) -> dict[str, str]:
    """Write ``key.size`` and ``key0`` … ``keyN``:
    items joined by commas, never split, chunks ending in a comma.

    Lens closes a chunk before an item that would just fit. This form does the same: both write the same
    bytes. An item longer than the limit gets its own chunk.
    """
    chunks: list[str] = []
    parts: list[str] = []
    length = 0
    for item in items:
        if parts and length + len(item) >= length_max:
            chunks.append("".join(parts))
            parts, length = [], 0
        parts += (item, ",")
        length += len(item) + 1
    if parts:
        chunks.append("".join(parts[:-1]))
    written = {f"{key}.size": str(len(chunks))}
    written.update((f"{key}{number}", chunk) for number, chunk in enumerate(chunks))
    return written


def read_list(properties: Mapping[str, str], key: str) -> str | None:
    """Join the chunks of a list, or take the bare key of the old unchunked form; None if neither exists.

    Raises TimelineInconsistent if the size is not a number or a chunk is missing.
    """
    size = properties.get(f"{key}.size")
    if size is None:
        return properties.get(key)
    if not (size.isascii() and size.isdigit() and len(size) < _SIZE_DIGITS_MAX) or int(size) > CHUNKS_MAX:
        raise TimelineInconsistent("the number of chunks is not a number", key=f"{key}.size", value=size)
    chunks = [properties.get(f"{key}{number}") for number in range(int(size))]
    if None in chunks:
        raise TimelineInconsistent("a chunk is missing", key=f"{key}{chunks.index(None)}", size=size)
    return "".join(chunk for chunk in chunks if chunk)


def blank_list(properties: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the keys that empty a list in ``properties``: size 0, and every existing chunk as empty text."""
    stale = {name: "" for name in properties if name == key or _is_chunk(name, key)}
    return {**({f"{key}.size": "0"} if f"{key}.size" in properties else {}), **stale}


def _is_chunk(name: str, key: str) -> bool:
    number = name[len(key) :]
    return name.startswith(key) and number.isascii() and number.isdigit()
