"""Decides which files of a directory to copy again, and which to remove.

A file is unchanged if the source still has the copied file, and the target still has the copy. Size, time and
inode identify both, as far as the file system has them. The bytes of all other files are compared and, if
they differ, copied: a lost record costs time, but no file. Times of the two sides are never compared with
each other, so clocks do not matter.

Only copies of the source's files are ever removed, and only on request: files that another process has put
there stay. In a directory whose files are replaced without an event, all files that the source does not have
are removed. One case needs no request: the copy of an unfinished file (``WRITING``), when the complete file
has its final name. Otherwise its rows would be on the target twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from state.errors import StateCorrupt


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Distinguishes a version of a file from an earlier one of the same name."""

    size_bytes: int
    mtime_ns: int | None
    identity: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether equal versions prove equal content; without a time they do not."""
        return self.mtime_ns is not None


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A finished copy: the version of the source's file, and the resulting file of the target."""

    source: FileVersion
    target: FileVersion

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return json.dumps(
            [[each.size_bytes, each.mtime_ns, each.identity] for each in (self.source, self.target)]
        ).encode()

    @staticmethod
    def from_bytes(value: bytes) -> CopiedFile:
        """Read the stored form; raise StateCorrupt."""
        try:
            source, target = json.loads(value)
            return CopiedFile(FileVersion(*source), FileVersion(*target))
        except (ValueError, TypeError) as error:
            raise StateCorrupt("the record of a copied file cannot be read", value=value[:100]) from error


WRITING: Final = ("._COPYING_", ".tmp", ".inprogress", ".part", ".partial", ".filepart")
"""Suffixes of files that their writers rename when they are complete: ``hadoop fs -put``, Flume, Flink, and
programs for transfers."""


@dataclass(frozen=True, slots=True)
class DirectoryPlan:
    """The work in one directory; names in order."""

    copied: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    """Recorded files that no longer exist on either side."""


def plan_directory(
    source: Mapping[str, FileVersion],
    target: Mapping[str, FileVersion],
    records: Mapping[str, CopiedFile],
    *,
    delete: bool,
    delete_others: bool = False,
) -> DirectoryPlan:
    """Compare the files of one directory on both sides; with ``delete``, remove copies of vanished files.

    Removes copies of unfinished files in any case, as soon as the complete file is at the source.
    ``delete_others`` also removes files that replay or a load wrote to the target.
    """
    copied = [name for name, version in source.items() if not _is_unchanged(name, version, target, records)]
    gone = [name for name in records if name not in source]
    removed = {name for name in gone if delete and name in target and target[name] == records[name].target}
    removed |= {name for name in target if _is_renamed(name, source)}
    if delete_others:
        removed = {name for name in target if name not in source}
    forgotten = [name for name in gone if name not in target]
    return DirectoryPlan(tuple(sorted(copied)), tuple(sorted(removed)), tuple(sorted(forgotten)))


def _is_renamed(name: str, source: Mapping[str, FileVersion]) -> bool:
    """Whether a file got its final name after its copy; the copy of a growing file has no record."""
    complete = (name.removesuffix(suffix) for suffix in WRITING if name.endswith(suffix))
    return name not in source and any(each in source for each in complete)


def _is_unchanged(
    name: str, version: FileVersion, target: Mapping[str, FileVersion], records: Mapping[str, CopiedFile]
) -> bool:
    present, record = target.get(name), records.get(name)
    if present is None or record is None or not version.is_known:
        return False
    return record == CopiedFile(version, present)


BATCH_BYTES: Final = 1024**3
BATCH_FILES: Final = 1_000
_BATCHES: Final = 10


def cut_batches(files: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Cut files, given with their sizes, into batches; each batch is recorded together, in order.

    Each batch ends with a new listing of the directory. A batch ends at 1 GiB, or at a thousand files or a
    tenth of all, whichever is more. Small files take about ten listings, however many there are, and a killed
    run has at most 1 GiB to compare again.
    """
    files_max = max(BATCH_FILES, -(-len(files) // _BATCHES))
    batch: list[str] = []
    size_bytes = 0
    for name, file_bytes in files:
        batch.append(name)
        size_bytes += file_bytes
        if size_bytes >= BATCH_BYTES or len(batch) >= files_max:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class Settled:
    """Result of the copies of one directory."""

    records: Mapping[str, CopiedFile]
    withdrawn: tuple[str, ...]
    """Files that vanished at the source meanwhile; remove their copies again."""


def settle_copies(
    copied: Mapping[str, bool],
    before: Mapping[str, FileVersion],
    after: Mapping[str, FileVersion],
    target: Mapping[str, FileVersion],
) -> Settled:
    """Return the records of ``copied`` files; ``before`` and ``after`` are the source's directory before and
    after the copies.

    ``copied`` says for each file whether the copy wrote it because the target's file was missing or differed.
    A file that changed meanwhile gets no record; the next run compares it again. A written file whose source
    vanished must not stay: replay may have applied the event of its removal before the copy appeared.
    """
    records: dict[str, CopiedFile] = {}
    withdrawn: list[str] = []
    for name, written in copied.items():
        if name not in after:
            if written:
                withdrawn.append(name)
        elif after[name] == before[name] and name in target and after[name].is_known:
            records[name] = CopiedFile(after[name], target[name])
    return Settled(records, tuple(name for name in withdrawn if name in target))
