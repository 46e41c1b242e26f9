"""Contents of the hidden files of a transactional table's bases.

Hive recognizes a base without rows by them (``MARKERS``). Before Hive 4, only such a file distinguishes the
base of a major compaction from that of an overwrite: both are ``base_0000005``, and the file
``_metadata_acid`` says "compacted" (reference: hive-3.1-source.md §3). The base of a compaction may have the
name of an aborted overwrite, and replaces the writes before it. If it were mistaken for that overwrite, its
rows would be lost.

The content counts, not the name: a truncation by Hive 4 writes the same file, which says "truncated".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from handlers.files.filesystems import Entry, FileSystem, is_hidden
from handlers.files.paths import Location
from state.errors import NotFound
from state.transactions.acid_directories import MARKERS, AcidDirectory


METADATA: Final = "_metadata_acid"
"""The file in a base that names the program that wrote the base."""
_BYTES_MAX: Final = 4096
"""Hive's file has about 50 bytes; a larger one is ignored."""


def is_ignored_base(entries: Iterable[Entry]) -> bool:
    """Return whether Hive ignores a base with these entries, because it finds no file in it (``MARKERS``)."""
    return all(is_hidden(entry.name) and not entry.name.startswith(MARKERS) for entry in entries)


def read_markers(
    files: FileSystem, root: Location, directories: Iterable[AcidDirectory | None]
) -> list[AcidDirectory]:
    """Return the directories below ``root``, except those that are None, with the contents of their markers.

    This takes one listing for each base without a suffix. A base that vanished meanwhile counts as marked:
    rows that it replaced are elsewhere by now, so it proves nothing about a write.
    """
    return [
        replace(directory, is_marked=_is_marked(files, root.child(directory.name)))
        if directory.kind == "base" and directory.txn_id is None
        else directory
        for directory in directories
        if directory is not None
    ]


def _is_marked(files: FileSystem, base: Location) -> bool:
    """Whether a compaction wrote the base. A base with rows has its marker before it gets its name."""
    try:
        if all(entry.name != METADATA or entry.size_bytes > _BYTES_MAX for entry in files.list(base)):
            return False
        with files.open(base.child(METADATA)) as reader:
            content = reader.read_chunk(memoryview(bytearray(_BYTES_MAX)))
        marker = json.loads(bytes(content))
    except NotFound:
        return True
    except ValueError:  # a writer is still at work
        return False
    return isinstance(marker, dict) and marker.get("dataFormat") == "compacted"
