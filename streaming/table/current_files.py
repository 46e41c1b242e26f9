"""The current directories and columns of a flat table, for readers that know only the table's directory.

After an hour was rewritten, both versions of its files are in the table's directory for a time, and files of
different ages have columns of different types. The metastore knows the current directories and types. Readers
without a metastore (PyArrow, DuckDB, Polars, pandas) find them in a small file, ``.tideline/current.json``,
the record.

The writer replaces the file atomically, at three moments:

1. before the files of a batch are moved, so that no reader finds a file with an hour or a type that is not in
   the record;
2. after an hour was switched to other files;
3. before directories are deleted, so that the record never names a deleted directory.

In between, and after a crash, the record may be older than the metastore. It is still correct: the old
directories hold all rows, because no file of an hour is deleted or added before the record is replaced.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from handlers.files.paths import Location, parse_location
from state.errors import FilesUnavailable, NotFound, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streaming.storage.port import Storage
    from streaming.table.flat_table import FlatTable, HourPartition, TableState


PATH: Final = ".tideline/current.json"
_FORMAT: Final = 1
_ATTEMPTS: Final = 10
_THREADS: Final = 16
"""Directories of an object store listed at the same time."""


@dataclass(frozen=True, slots=True)
class CurrentTable:
    """Content of the record."""

    columns: tuple[tuple[str, str], ...]
    """Names and types, as Hive writes them."""
    partition_columns: tuple[tuple[str, str], ...]
    directories: Mapping[str, str]
    """The directory of every hour by the name of its partition, relative to the partition's own directory
    (``v2``), or a URI."""

    @classmethod
    def of(cls, state: TableState, partitions: Iterable[HourPartition]) -> CurrentTable:
        """Return the content for a table with these partitions."""
        columns, directories = state.columns, {}
        for each in partitions:
            own = columns.directory(state.location, each.hour)
            is_own = each.location.parent == own
            directories[columns.partition_name(each.hour)] = (
                each.location.name if is_own else str(each.location)
            )
        return cls(
            tuple((slot.name, slot.type.hive) for slot in state.layout.slots),
            tuple((each.name, each.type) for each in columns.columns),
            directories,
        )

    @classmethod
    def parse(cls, text: str) -> CurrentTable:
        """Return the value that ``text`` encodes. Raises ValueError, KeyError or TypeError for any other
        text.
        """
        form: dict[str, Any] = json.loads(text)
        if form["format"] != _FORMAT:
            raise ValueError(f"format {form['format']} is newer than this program")
        columns, keys = (
            tuple((str(name), str(kind)) for name, kind in form[part])
            for part in ("columns", "partition_columns")
        )
        return cls(columns, keys, {str(name): str(place) for name, place in form["directories"].items()})

    @property
    def text(self) -> str:
        """The content of the record."""
        form = {
            "format": _FORMAT,
            "columns": self.columns,
            "partition_columns": self.partition_columns,
            "directories": self.directories,
        }
        return json.dumps(form, ensure_ascii=False, separators=(",", ":"))

    def locate(self, table: Location) -> list[tuple[Location, tuple[str, ...]]]:
        """Return the directory and the partition values of every hour of the table at ``table``."""
        return [
            (
                parse_location(place) if ":/" in place else table.join(name).child(place),
                tuple(unquote(part.partition("=")[2]) for part in name.split("/")),
            )
            for name, place in self.directories.items()
        ]


class CurrentTableFile:
    """Writes the record of one table."""

    def __init__(self, table: FlatTable, storage: Storage) -> None:
        self._table = table
        self._storage = storage
        self._written = ""

    def write(self, state: TableState) -> None:
        """Write the record for the table's current partitions, unless this process has written the same
        before. The caller holds the lease.
        """
        text = CurrentTable.of(state, self._table.partitions()).text
        if text != self._written:
            self._storage.write(str(state.location.join(PATH)), text)
            self._written = text


@dataclass(frozen=True, slots=True)
class DataFile:
    """One current file of a table."""

    location: Location
    values: tuple[str, ...]
    """The values of the partition columns."""


def find_current_files(
    table: Location,
    read: Callable[[Location], str | None],
    list_directory: Callable[[Location], Sequence[str]],
) -> tuple[CurrentTable, list[DataFile]]:
    """Return the record of the table and all current files.

    ``read`` returns the text of a file, None if it does not exist. ``list_directory`` returns the names in a
    directory, none if it does not exist; several threads call it. Reads the record again after listing the
    directories, because the files may have changed if the record has.

    Raises NotFound if the table has no record, StateCorrupt if it is unreadable, and FilesUnavailable if it
    changes all the time.
    """
    text = _read_record(table, read)
    for _ in range(_ATTEMPTS):
        try:
            current = CurrentTable.parse(text)
            places = current.locate(table)
        except (ValueError, KeyError, TypeError) as broken:
            raise StateCorrupt(
                "the record of a flat table's current files cannot be read",
                path=str(table.join(PATH)),
                reason=str(broken)[:200],
                hint="It was written by a newer version of Tideline, or modified. The table's driver "
                "replaces it.",
            ) from broken
        with ThreadPoolExecutor(_THREADS) as pool:
            listed = list(pool.map(list_directory, [directory for directory, _ in places]))
        files = [
            DataFile(directory.child(name), values)
            for (directory, values), names in zip(places, listed, strict=True)
            for name in sorted(names)
            if name.endswith(".orc") and not name.startswith((".", "_"))
        ]
        before, text = text, _read_record(table, read)
        if text == before:
            return current, files
    raise FilesUnavailable("a flat table changes faster than its files can be listed", table=str(table))


def _read_record(table: Location, read: Callable[[Location], str | None]) -> str:
    text = read(table.join(PATH))
    if text is None:
        raise NotFound(
            "the directory has no record of a flat table's current files",
            path=str(table.join(PATH)),
            hint="Name the table's own directory. The table's driver writes the record with its next batch, "
            "and 'tideline split seal TABLE' at once.",
        )
    return text
