"""Which directories of a transactional table contain the rows of a snapshot: Hive's rules of
AcidUtils.getAcidState.

A table or partition has one directory for each write (``delta_0000005_0000005_0001``, ``delete_delta_…``,
``base_…`` for an overwrite or truncation) and those of compactions, whose names end in the compactor's
transaction (``delta_0000001_0000005_v0000012``). Before Hive 4 they have no such suffix; a file inside a base
says that a compaction wrote it (``handlers.files.acid_markers``). Files directly in the root, from before the
table was transactional, are *originals*. A compaction replaces directories, and the cleaner removes the
replaced ones some time later. So several directories contain the same rows, and a reader must choose.

A snapshot differs from a reader: it is a past state, in which every write id up to a mark is committed or
aborted. The directories may have moved on since. If a visible one mixes rows of the snapshot with later ones,
or if the directories that it replaced may be gone, the snapshot is no longer readable, and ``beyond`` names
the directory.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from state.transactions.valid_write_ids import ValidWriteIds


Kind = Literal["base", "delta", "delete_delta"]

MARKERS: Final = ("_metadata_acid", "_orc_acid_version")
"""Beginnings of the names of hidden files by which Hive recognizes a directory without rows
(AcidUtils.acidHiddenFileFilter).

Hive finds directories by the files in them. So it ignores a base in which only other hidden files are: Impala
truncates a table by ``base_0000005/_empty``, and Hive still reads the rows.
"""

_ACID_LIKE: Final = re.compile(r"(base|delta|delete_delta)_")
_NAME: Final = re.compile(
    r"(?:base_(?P<base>-?\d{1,19})"
    r"|(?P<kind>delta|delete_delta)_(?P<first>\d{1,19})_(?P<last>\d{1,19})(?:_(?P<statement>\d{1,10}))?)"
    r"(?:_v(?P<txn>\d{1,19}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class AcidDirectory:
    """The parts of a directory's name; ``first`` and ``last`` are the range of its write ids."""

    name: str
    kind: Kind
    first: int
    last: int
    statement: int | None = None
    txn_id: int | None = None
    """The transaction of the compaction that wrote it; None if a writer did, or a compaction before Hive
    4."""
    is_marked: bool = False
    """Whether a file in the base says that a compaction wrote it. The name alone does not tell."""

    @property
    def is_compacted(self) -> bool:
        """Whether a compaction certainly wrote the directory; minor ones before Hive 4 leave no sign."""
        return self.txn_id is not None or self.is_marked

    @property
    def is_merged(self) -> bool:
        """Whether the directory may have rows of several writes: of a compaction, or of a batch of streamed
        transactions.
        """
        return self.is_compacted or self.first < self.last

    @staticmethod
    def parse(name: str) -> AcidDirectory | None:
        """Parse the name of an ACID directory; None for any other name, such as ``HIVE_UNION_SUBDIR_1``.

        Raises BadInput for a malformed name that begins like one of an ACID directory.
        """
        if not _ACID_LIKE.match(name):
            return None
        match = _NAME.fullmatch(name)
        if match is None:
            raise BadInput("malformed name of an ACID directory", name=name[:200])
        txn_id = None if match["txn"] is None else int(match["txn"])
        if match["base"] is not None:
            write_id = int(match["base"])
            return AcidDirectory(name, "base", write_id, write_id, None, txn_id)
        first, last = int(match["first"]), int(match["last"])
        if first > last:
            raise BadInput("the write ids of an ACID directory are in the wrong order", name=name[:200])
        statement = None if match["statement"] is None else int(match["statement"])
        kind: Kind = "delta" if match["kind"] == "delta" else "delete_delta"
        return AcidDirectory(name, kind, first, last, statement, txn_id)

    @staticmethod
    def find(name: str) -> AcidDirectory | None:
        """Parse a name as ``parse`` does, but return None for a malformed one too."""
        try:
            return AcidDirectory.parse(name)
        except BadInput:
            return None


@dataclass(frozen=True, slots=True)
class SelectedDirectories:
    """The directories of a snapshot."""

    names: tuple[str, ...] = ()
    originals: bool = True
    """Whether the files from before the table was transactional belong to it."""
    beyond: str | None = None
    """A directory that makes the snapshot unreadable; the other fields mean nothing then."""


def select_directories(
    directories: Iterable[AcidDirectory],
    valid: ValidWriteIds,
    *,
    is_ended: Callable[[int], bool],
    is_committed: Callable[[int], bool],
) -> SelectedDirectories:
    """Select from all directories of a table or partition those that contain the rows of ``valid``.

    ``directories`` must come with their markers, and ``valid`` has no open write ids. ``is_ended`` returns
    whether a transaction is committed, and ``is_committed`` whether a write id above the snapshot is. Both
    refer to a moment after the listing of the directories.
    """
    visible = [each for each in directories if each.txn_id is None or is_ended(each.txn_id)]
    mark = valid.high_water_mark
    for directory in visible:
        if _is_beyond(directory, mark, is_committed):
            return SelectedDirectories(beyond=directory.name)
    base = _select_base([each for each in visible if each.last <= mark], valid)
    start = 0 if base is None else base.last
    deltas = _select_deltas([each for each in visible if each.last <= mark], start, valid)
    selected = deltas if base is None else [base, *deltas]
    return SelectedDirectories(tuple(each.name for each in selected), base is None)


def is_hidden_original(path: str, valid: ValidWriteIds) -> bool:
    """Whether readers skip ``path`` below the root, because it is in a directory inside another one that
    belongs to a write they do not see.

    An insert fails if its table gets another name meanwhile, and leaves ``dt=a/delta_0000036_0000036_0000``
    in the former directory, which the next table of this name finds. Hive applies the write ids of that table
    to it (AcidUtils.getHdfsDirSnapshots). ``valid`` has no open write ids.
    """
    nested = path.split("/")[1:]  # select_directories selects a directory of the root itself
    directory = next(filter(None, map(_parse_nested, nested)), None)
    if directory is None:
        return False
    if directory.last > valid.high_water_mark:
        return True
    return not directory.is_compacted and not _has_visible(directory.first, directory.last, valid)


def _parse_nested(name: str) -> AcidDirectory | None:
    """Parse the name of a directory below the root; None if it only resembles that of an ACID directory,
    because directories of originals may have any name.
    """
    return AcidDirectory.parse(name) if _NAME.fullmatch(name) else None


def _is_beyond(directory: AcidDirectory, mark: int, is_committed: Callable[[int], bool]) -> bool:
    """Whether the directory replaces rows of write ids up to ``mark`` by rows of later ones."""
    if directory.last <= mark:
        return False
    if directory.kind != "base":
        return directory.first <= mark
    return directory.is_compacted or is_committed(directory.last)


def _select_base(directories: Sequence[AcidDirectory], valid: ValidWriteIds) -> AcidDirectory | None:
    """Return the base with the highest write id; of several, the latest. The base of an overwrite counts only
    once its write is committed.
    """
    bases = [
        directory
        for directory in directories
        if directory.kind == "base" and (directory.is_compacted or valid.is_visible(directory.last))
    ]
    return max(bases, key=lambda directory: (directory.last, directory.txn_id or 0), default=None)


def _select_deltas(
    directories: Sequence[AcidDirectory], start: int, valid: ValidWriteIds
) -> list[AcidDirectory]:
    """Return the deltas above the base that no wider one replaces.

    A wide delta comes before the ones in its range. All statements of one write belong together, and so do
    the rows that a write or a compaction added and those that it deleted.
    """
    deltas = [
        delta
        for delta in directories
        if delta.kind != "base" and _has_visible(delta.first, delta.last, valid)
    ]
    deltas.sort(
        key=lambda d: (d.first, -d.last, -1 if d.statement is None else d.statement, -(d.txn_id or 0))
    )
    selected: list[AcidDirectory] = []
    for delta in deltas:
        previous = selected[-1] if selected else None
        covered_up_to = start if previous is None else previous.last
        if delta.last > covered_up_to:
            if _has_visible(covered_up_to + 1, delta.last, valid):
                selected.append(delta)
        elif previous is not None and _belongs_to(delta, previous, selected):
            selected.append(delta)
    return selected


def _belongs_to(delta: AcidDirectory, previous: AcidDirectory, selected: Sequence[AcidDirectory]) -> bool:
    """Whether ``found`` is another part of the same write or compaction as ``previous``."""
    if (delta.first, delta.last) != (previous.first, previous.last):
        return False
    if delta.statement != previous.statement:
        return previous.statement is not None
    part = (delta.first, delta.last, delta.statement)
    kinds = {other.kind for other in selected if (other.first, other.last, other.statement) == part}
    return delta.kind not in kinds


def _has_visible(first: int, last: int, valid: ValidWriteIds) -> bool:
    """Whether a range contains a committed write id."""
    aborted = bisect_right(valid.aborted, last) - bisect_left(valid.aborted, first)
    return aborted < last - first + 1
