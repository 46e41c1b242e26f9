"""Compares the files of one table or partition on both sides.

Each side compacts on its own. A compaction replaces the files of many write ids by others whose bytes and
names cannot be compared. Such files count as not compared; the rows in them can be compared by ``--rows``.
Everything else must be equal: the directories of single write ids have the same names and the same files on
both sides. Only the base of an overwrite is named on the target like the base of a compaction
(``transactions.copies.base_names``), but its files do not have the names that a compactor gives.

Minor compactions before Hive 4 have no suffix: a directory of several write ids at the source is one, or a
batch of streamed transactions (reference: hive-3.1-source.md §3). It counts as compacted if the target does
not have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from handlers.replication.verification.findings import Difference, Finding, NotCompared
from state.transactions.acid_directories import AcidDirectory
from state.value_text import count_text


_OF_COMPACTOR: Final = re.compile(r"bucket_\d+", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Directory:
    """A directory of a transactional table that readers see."""

    name: str
    """Empty for the table's own directory, which has files from before the table was transactional."""
    first: int = 0
    last: int = 0
    """The write ids whose rows it contains or replaces; a base contains all ids up to its own."""
    compacted: bool = False
    """Whether a compaction of this side wrote it. The copy of a compacted directory has no suffix, and does
    not count."""

    @staticmethod
    def of(directory: AcidDirectory) -> Directory:
        """Return the directory in this form."""
        first = 0 if directory.kind == "base" else directory.first
        return Directory(directory.name, first, directory.last, directory.is_compacted)

    def at_source(self) -> Directory:
        """Return the directory as one of the source: it is compacted if it has rows of several writes."""
        return replace(self, compacted=self.compacted or 0 < self.first < self.last)

    @property
    def copied_name(self) -> str:
        """The name of its copy on a target: without the compactor's transaction."""
        return self.name.partition("_v")[0]

    @property
    def prefix(self) -> str:
        """Beginning of the paths of its files."""
        return f"{self.copied_name}/" if self.name else ""

    def covers(self, other: Directory) -> bool:
        """Whether all write ids of ``other`` are in the range of this directory."""
        return self.first <= other.first and other.last <= self.last

    def overlaps(self, other: Directory) -> bool:
        """Whether some write ids are in the ranges of both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of one file; ``md5`` is None unless the content was read."""

    size_bytes: int
    md5: str | None = None

    def __str__(self) -> str:
        """``120 bytes, md5 0f…``."""
        return f"{count_text(self.size_bytes, 'byte')}" + (f", md5 {self.md5}" if self.md5 else "")


Files = dict[str, FileFacts]
"""The visible files below one directory, by relative path."""
AcidFiles = dict[Directory, Files]
"""The files that readers see, by directory."""


def compare_files(
    source: Mapping[str, FileFacts], target: Mapping[str, FileFacts], prefix: str = ""
) -> Iterator[Finding]:
    """Yield the files that are not the same on both sides."""
    for path in sorted({*source, *target}):
        ours, theirs = source.get(path), target.get(path)
        if ours != theirs:
            yield Difference("file", prefix + path, _text(ours), _text(theirs))


def _text(file: FileFacts | None) -> str | None:
    return None if file is None else str(file)


def compare_acid_files(source: AcidFiles, target: AcidFiles, prefix: str = "") -> Iterator[Finding]:
    """Yield the differences between the directories that readers of both sides see."""
    source = {each.at_source(): files for each, files in source.items()}
    overwritten = {
        each.copied_name for each in source if not each.compacted and each.name.startswith("base_")
    }
    matches = {
        each.copied_name: each
        for each in target
        if not each.compacted or (each.copied_name in overwritten and _is_copy(target[each]))
    }
    compared: set[Directory] = set()
    for directory in sorted(source):
        match = matches.pop(directory.copied_name, None)
        if match is not None:
            compared.add(match)
            yield from compare_files(source[directory], target[match], prefix + match.prefix)
        else:
            yield from _compare_unmatched(directory, source[directory], target, prefix, at_source=True)
    unmatched = [each for each in target if each not in compared]
    for directory in sorted(unmatched):
        yield from _compare_unmatched(directory, target[directory], source, prefix, at_source=False)


def _is_copy(files: Files) -> bool:
    """Whether a base on the target, which has the same write id as a base at the source, contains copied
    files instead of files of a compactor.
    """
    return not any(_OF_COMPACTOR.fullmatch(path) for path in files)


def _compare_unmatched(
    directory: Directory, files: Files, others: AcidFiles, prefix: str, *, at_source: bool
) -> Iterator[Finding]:
    """Compare a directory that the other side lacks or has compacted."""
    if directory.compacted:
        explained = any(directory.overlaps(other) and others[other] for other in others)
    else:
        explained = any(other.compacted and other.covers(directory) for other in others)
    if explained:
        if files:
            yield NotCompared("files", len(files))
        return
    for path, facts in sorted(files.items()):
        ours, theirs = (str(facts), None) if at_source else (None, str(facts))
        yield Difference("file", prefix + directory.prefix + path, ours, theirs)
