"""File systems, and the verified copy of source files. See ``DESIGN.md``.

Knows no metastore and no events beyond ``SourceFile``.
"""

from __future__ import annotations

from handlers.files.copies import Copied, Copier, CopyTask, copy_task
from handlers.files.filesystems import FileSystem, FileSystems
from handlers.files.listing import list_plain_files, list_write_directories
from handlers.files.paths import AllowedRoots, Location, parse, target_subdir
from handlers.files.pool import CopyCounters, CopyHandle, CopyPool
from handlers.files.schemes import open_file_systems


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
