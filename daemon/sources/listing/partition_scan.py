"""Finds partitions into which a write may have put files without an event, by the times of their directories.

Hive's streaming API, HCatalog and Impala log nothing if the partition exists already (reference:
hive-3.1-source.md §1). A new delta changes the modification time of the partition's directory. Object stores
have no such times, so every directory is a candidate there.

It finds only partitions below the table's directory. The later listing omits candidates that are not
partitions in the metastore.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from handlers.files.filesystems import FileSystem, FileSystems, is_hidden
from handlers.files.paths import AllowedRoots, Location, parse_location
from handlers.replication.target.objects import partition_key_names
from handlers.structs.objects import Table
from state.errors import LimitExceeded, NotFound
from state.transactions.open_candidates import Candidate


SLACK_S: Final = 120
"""The clocks of the metastore and of the file system may differ by this much."""
LISTINGS_MAX: Final = 5_000
CANDIDATES_MAX: Final = 20_000


def scan(
    file_systems: FileSystems,
    table: Table,
    since_s: int,
    *,
    allowed: AllowedRoots,
    needs_times: bool,
) -> dict[str, Candidate]:
    """Return the partitions whose directories have changed since ``since_s``, by name.

    With ``needs_times``, a directory without a time counts as unchanged.

    Raises UnsafePath, FilesUnavailable, and LimitExceeded if there are too many.
    """
    if table.sd.location is None:
        return {}
    root = allowed.require_directory(parse_location(table.sd.location))
    since_ns = (since_s - SLACK_S) * 1_000_000_000
    scanner = _Scanner(file_systems.of(root), [key.lower() for key in partition_key_names(table)], since_ns)
    found: dict[str, Candidate] = {}
    for name, location, mtime_ns in scanner.find(root, "", 0):
        if mtime_ns is None and needs_times:
            continue
        if len(found) >= CANDIDATES_MAX:
            raise LimitExceeded("too many partitions have changed", path=str(root), limit=CANDIDATES_MAX)
        found[name] = Candidate(str(location), is_scanned=True)
    return found


class _Scanner:
    def __init__(self, files: FileSystem, keys: list[str], since_ns: int) -> None:
        self._files = files
        self._keys = keys
        self._since_ns = since_ns
        self._listings = 0

    def find(self, directory: Location, path: str, level: int) -> Iterator[tuple[str, Location, int | None]]:
        """Yield name, location and time of the partitions below ``directory``, whose path is ``path``."""
        self._listings += 1
        if self._listings > LISTINGS_MAX:
            raise LimitExceeded(
                "a table has too many directories to look for changed partitions",
                path=str(directory),
                limit=LISTINGS_MAX,
            )
        is_last = level == len(self._keys) - 1
        prefix = f"{self._keys[level]}="
        for entry in self._files.list(directory):
            if not entry.is_directory or is_hidden(entry.name) or not entry.name.startswith(prefix):
                continue
            name = f"{path}/{entry.name}" if path else entry.name
            below = directory.child(entry.name)
            if not is_last:
                with suppress(NotFound):
                    yield from self.find(below, name, level + 1)
            elif entry.mtime_ns is None or entry.mtime_ns >= self._since_ns:
                yield name, below, entry.mtime_ns
