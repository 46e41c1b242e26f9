"""The directories with the files of one write, and whether all its files are known: rules for a source that
does not report write events.

The listing of such a source follows soon after the commit, perhaps later. A compaction may have replaced the
directories of the write by then, and the cleaner removes them one after the other. The found files therefore
prove nothing if another directory *covers* the write, that is, may contain its rows together with others.
Before Hive 4, only a file inside distinguishes the base of a compaction from that of an overwrite of the same
name (``AcidDirectory.is_marked``); a higher base covers the write in both cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from state.transactions.acid_directories import AcidDirectory


@dataclass(frozen=True, slots=True)
class OwnDirectories:
    """The directories of one write."""

    names: tuple[str, ...] = ()
    covered_by: str | None = None
    """A directory that may have the rows of the write; its own may then be gone."""


def select_own(directories: Iterable[AcidDirectory], write_id: int) -> OwnDirectories:
    """Return the directories that the write made.

    Read the marker of a base with this write id first; other directories do not need it.
    """
    own: list[str] = []
    covered_by: str | None = None
    for directory in directories:
        if directory.first == directory.last == write_id and not directory.is_compacted:
            own.append(directory.name)
        elif _covers(directory, write_id):
            covered_by = covered_by or directory.name
    return OwnDirectories(tuple(own), covered_by)


def _covers(directory: AcidDirectory, write_id: int) -> bool:
    if directory.kind == "base":
        return directory.last >= write_id
    return directory.first <= write_id <= directory.last


def is_complete(*, is_covered: bool, is_named: bool, is_added: bool, is_full_acid: bool) -> bool:
    """Return whether the known files of a write in one partition are all.

    They are if no directory covers the write, because a listing then shows all of them. Otherwise only INSERT
    events prove it: they name (``is_named``) all files of a full-ACID table, but none of a partition that the
    transaction has added (``is_added``), and none of an insert-only table.
    """
    return not is_covered or (is_named and not is_added and is_full_acid)
