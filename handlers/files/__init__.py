"""File systems, and the verified copy of source files. See ``DESIGN.md``.

Knows no metastore and no events beyond ``SourceFile``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.files.arrow import azure_files, gcs_files, hdfs_files, s3_files
from handlers.files.copies import Copied, Copier, CopyTask, copy_task
from handlers.files.filesystems import Factory, FileSystem, FileSystems
from handlers.files.listing import list_plain_files, list_write_directories
from handlers.files.local import local_files
from handlers.files.paths import AllowedRoots, Location, parse, target_subdir
from handlers.files.pool import CopyCounters, CopyHandle, CopyPool


if TYPE_CHECKING:
    from collections.abc import Mapping


FACTORIES: Final[Mapping[str, Factory]] = {
    "file": local_files,
    "hdfs": hdfs_files,
    "s3": s3_files,
    "s3a": s3_files,
    "s3n": s3_files,
    "gs": gcs_files,
    "abfs": azure_files,
    "abfss": azure_files,
}


def open_file_systems(options: Mapping[str, Mapping[str, object]] | None = None) -> FileSystems:
    """Return the registry of all known schemes; ``options`` maps a scheme to the options of its file systems.

    Raises ConfigError for options of an unknown scheme; wrong options show when a file system is first used.
    """
    return FileSystems(FACTORIES, options)


__all__ = [
    "AllowedRoots",
    "Copied",
    "Copier",
    "CopyCounters",
    "CopyHandle",
    "CopyPool",
    "CopyTask",
    "FileSystem",
    "FileSystems",
    "Location",
    "copy_task",
    "list_plain_files",
    "list_write_directories",
    "open_file_systems",
    "parse",
    "target_subdir",
]
