"""Checks files that no event names for completeness, and computes their checksums.

A stream leaves the file of a transaction empty or unfinished until it begins the next one (reference:
hive-3.1-source.md §1). Tideline must not copy such a file. Files of full-ACID tables are ORC files, which end
with the word ``ORC`` and one byte.

The change manager names files by their checksums. The relay therefore reads files of up to ``READ_BYTES_MAX``
together, and records their checksums in the form of the source's INSERT events, so that replicas find the
files after a compaction has replaced them. It does not check the end of larger files, because a stream does
not write so much in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from handlers.files.acid_writes import OwnFile
from handlers.files.copying.checksums import new_digest_like
from handlers.files.filesystems import FileSystems, read_chunks
from handlers.files.paths import parse_location


READ_BYTES_MAX: Final = 64 * 1024 * 1024
_END: Final = b"ORC"


@dataclass(frozen=True, slots=True)
class Sample:
    """The checksum of a file from an INSERT event, and the change manager's directory."""

    checksum: str
    cm_root: str


def read_files(
    files: Iterable[OwnFile], file_systems: FileSystems, sample: Sample | None, *, is_orc: bool
) -> list[OwnFile] | None:
    """Return the files, with checksums if they can be computed; None if a file is incomplete.

    Raises NotFound if a file is gone, and FilesUnavailable.
    """
    room = READ_BYTES_MAX
    found: list[OwnFile] = []
    for each in files:
        if is_orc and each.size_bytes == 0:
            return None
        if each.size_bytes > room or (sample is None and not is_orc):
            found.append(each)
            continue
        room -= each.size_bytes
        end, checksum = _read(each, file_systems, sample)
        if is_orc and end[-4:-1] != _END:
            return None
        if sample is not None and checksum is not None:
            each = replace(each, file=replace(each.file, checksum=checksum, cm_root=sample.cm_root))  # noqa: PLW2901
        found.append(each)
    return found


def _read(own: OwnFile, file_systems: FileSystems, sample: Sample | None) -> tuple[bytes, str | None]:
    """Return the last bytes of a file, and its checksum."""
    location = parse_location(own.file.uri)
    files = file_systems.of(location)
    digest = None if sample is None else new_digest_like(location, sample.checksum)
    if digest is not None and files.is_encrypted(location):  # HDFS has a checksum of the stored bytes only
        digest = None
    end = b""
    for chunk in read_chunks(files, location):
        end = (end + chunk[-4:])[-4:]
        if digest is not None:
            digest.update(chunk)
    return end, None if digest is None else digest.hexdigest()
