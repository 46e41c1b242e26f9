"""Selects the files with the rows that readers of a table see, and their form, for comparisons of rows by an
engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from handlers.files.paths import Location, parse_location
from handlers.replication.policy.locations import list_row_directories
from handlers.replication.target.objects import format_partition_name, partition_key_names
from handlers.replication.verification.reading import OneTable


@dataclass(frozen=True, slots=True)
class RowFiles:
    """The files of one partition, or of a table without partitions."""

    root: Location
    plain: tuple[str, ...] = ()
    """URIs of files of rows."""
    events: tuple[str, ...] = ()
    """URIs of files of ACID events: inserted rows with their row ids and write ids."""
    deletes: tuple[str, ...] = ()
    """URIs of files of ACID events that delete rows by their row ids."""


def find_row_files(table: OneTable, names: Sequence[str]) -> dict[str, RowFiles]:
    """Return the files of the named partitions by name,
    or those of a table without partitions under an empty name.
    """
    return {name: _row_files(table, location) for name, location in _find_locations(table, names).items()}


def _find_locations(table: OneTable, names: Sequence[str]) -> dict[str, str]:
    if not table.is_partitioned:
        return {"": next(iter(list_row_directories(table.table)), "")}
    keys = partition_key_names(table.table)
    partitions = table.side.metastore.get_partitions(table.side.db, table.name, names, with_columns=False)
    return {
        format_partition_name(keys, list(each.values or [])): each.sd.location or "" for each in partitions
    }


def _row_files(table: OneTable, location: str) -> RowFiles:
    root = parse_location(location)
    files, acid_files = table.list_files(location, contents=False)
    plain = [str(root.join(path)) for path in files]
    events: list[str] = []
    deletes: list[str] = []
    for directory, inside in acid_files.items():
        at = root.child(directory.name) if directory.name else root
        uris = deletes if directory.name.startswith("delete_delta_") else events
        if not directory.name or not table.has_row_ids:
            uris = plain
        uris += [str(at.join(path)) for path in inside]
    return RowFiles(root, tuple(plain), tuple(events), tuple(deletes))
