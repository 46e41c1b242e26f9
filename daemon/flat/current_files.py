"""The current files of a flat table, for ``tideline split files``: read from the table's directory, without Spark and beside its driver."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from handlers.files.filesystems import CHUNK_BYTES
from handlers.files.paths import Location, parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import ConfigError, NotFound
from streaming.table.current_files import find_current_files


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.config.model import Config
    from daemon.flat.settings import FlatConfig
    from handlers.files.filesystems import FileSystem


_THREADS: Final = 16


def list_current_files(config: Config, flat: FlatConfig) -> dict[str, Any]:
    """Return the current files of a table, its columns and its partition columns.

    Raises ConfigError if the table has no location here, and NotFound if its driver has not written it yet.
    """
    if flat.location is None:
        raise ConfigError(
            "the flat table has no location in this configuration",
            table=flat.table,
            hint="Set location, source and event_time (docs/CONFIG.md).",
        )
    table = parse_location(flat.location)
    files = _Files(open_file_systems(config.files.all_options()).of(table))
    current, found = find_current_files(table, files.read, files.list_directories)
    names = [name for name, _ in current.partition_columns]
    return {
        "table": flat.table,
        "columns": [{"name": name, "type": kind} for name, kind in current.columns],
        "partition_columns": [{"name": name, "type": kind} for name, kind in current.partition_columns],
        "files": [
            {"path": str(each.location), "partition": dict(zip(names, each.values, strict=True))}
            for each in found
        ],
    }


class _Files:
    def __init__(self, system: FileSystem) -> None:
        self._system = system

    def read(self, location: Location) -> str | None:
        buffer, content = memoryview(bytearray(CHUNK_BYTES)), bytearray()
        try:
            with self._system.open(location) as stream:
                while count := stream.readinto(buffer):
                    content += buffer[:count]
        except NotFound:
            return None
        return content.decode()

    def list_directories(self, directories: Sequence[Location]) -> Iterable[Sequence[str]]:
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(self._list, directories))

    def _list(self, directory: Location) -> list[str]:
        try:
            return [entry.name for entry in self._system.list(directory) if not entry.is_directory]
        except NotFound:
            return []
