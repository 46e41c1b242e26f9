"""Descriptions of a table or partition on one side as values, and their comparison: pure functions.

Statistics depend on files, so a compaction on one side changes them there. Hive logs them before the
transaction ends; if it aborts, replay removes the mark of accuracy on the target, while readers of the source
ignore the statistics because of their write id. Such statistics count as not compared. So do those of a
transactional table whose mark on the target names columns only: Hive then uses none of them. Statistics of
columns that arrive after such an abort leave a mark of this kind.

A rename gives its write id to all partitions. If its transaction aborts, readers ignore their statistics
until Hive forgets the abort, at different times on the two sides. If the source has forgotten it before the
target, such statistics are not compared either.

A mark of the target that names less than the source's is not compared either: it can make queries slower, but
never wrong. If a partition has no mark, Hive 4.2 also marks its basic statistics as accurate when it sets
those of columns (``DirectSqlUpdatePart.updatePartitionParamTable``), whether they are or not. The target does
not repeat this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from handlers.replication.target.objects import ACCURATE, STATISTICS, list_accurate
from handlers.replication.verification.facts import Facts, compare_facts
from handlers.replication.verification.file_rules import (
    AcidFiles,
    Files,
    compare_acid_files,
    compare_files,
)
from handlers.replication.verification.findings import PRESENT, Difference, Finding, Kind, NotCompared
from state.transactions.valid_write_ids import ValidWriteIds, WriteIdState, compare_write_ids


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one table or partition on one side."""

    basic: Mapping[str, str]
    """The parameters of ``STATISTICS`` that are present."""
    columns: Mapping[str, str]
    """Statistics by column, as text."""
    valid: bool = True
    """Whether their write id is visible to readers of this side."""
    write_id: int = 0
    """The write id of the last change of the table or partition; 0 if it has none."""
    transactional: bool = False

    @property
    def is_accurate(self) -> bool:
        """Whether Hive may use the statistics. For a transactional table, the mark must name the basic
        statistics, too.
        """
        mark = self.basic.get(ACCURATE)
        return mark is not None and (not self.transactional or "BASIC_STATS" in mark)

    @staticmethod
    def select(parameters: Mapping[str, str] | None) -> dict[str, str]:
        """Return the basic statistics among ``parameters``."""
        return {key: value for key, value in (parameters or {}).items() if key in STATISTICS}


_LOCATION: Final[tuple[Kind, str]] = ("location", "")


@dataclass(frozen=True, slots=True)
class Description:
    """A table or partition on one side. Names and locations of the source are those that its copy has."""

    facts: Facts
    statistics: Statistics = field(default_factory=lambda: Statistics({}, {}))
    files: Files = field(default_factory=dict)
    """Files of a plain table."""
    acid_files: AcidFiles = field(default_factory=dict)
    """Files of a transactional table that readers see."""
    not_compared: tuple[NotCompared, ...] = ()
    """Objects without a counterpart by design, such as a foreign key to a table that is not replicated."""

    @property
    def file_count(self) -> int:
        """Number of visible files."""
        return len(self.files) + sum(map(len, self.acid_files.values()))

    @property
    def size_bytes(self) -> int:
        """Size of the visible files."""
        trees = (self.files, *self.acid_files.values())
        return sum(file.size_bytes for tree in trees for file in tree.values())

    def written_ids(self) -> set[int]:
        """Return the write ids with files that were not compacted."""
        return {
            directory.last
            for directory, files in self.acid_files.items()
            if files and not directory.compacted and directory.last > 0
        }

    def compacted_up_to(self) -> int:
        """Return the highest write id that a compaction has covered, 0 if there is none."""
        return max((each.last for each in self.acid_files if each.compacted), default=0)


def compare(source: Description, target: Description, prefix: str = "") -> Iterator[Finding]:
    """Yield the differences between both sides of a table or partition; ``prefix`` is put in front of every
    key.

    A description of the source without a location is that of a partition outside of the table's directory,
    whose copy may be anywhere. After SET LOCATION of a partitioned table, the source's older partitions are
    outside, and their copies stay where they are.
    """
    yield from source.not_compared
    placed = {
        fact: value for fact, value in target.facts.items() if fact != _LOCATION or fact in source.facts
    }
    yield from compare_facts(source.facts, placed, prefix)
    in_files = [
        *compare_files(source.files, target.files, prefix),
        *compare_acid_files(source.acid_files, target.acid_files, prefix),
    ]
    yield from in_files
    compacted = any(isinstance(finding, NotCompared) for finding in in_files)
    yield from compare_statistics(source.statistics, target.statistics, compacted=compacted, prefix=prefix)


def compare_partitions(
    source: Mapping[str, Description], target: Mapping[str, Description]
) -> Iterator[Finding]:
    """Yield the differences between the partitions of both sides, by name."""
    for name in sorted({*source, *target}):
        ours, theirs = source.get(name), target.get(name)
        if ours is None or theirs is None:
            yield missing_partition(name, at_source=ours is not None)
        else:
            yield from compare(ours, theirs, f"{name} ")


def missing_partition(name: str, *, at_source: bool) -> Difference:
    """Return the difference of a partition that only one side has."""
    return Difference("partition", name, PRESENT if at_source else None, None if at_source else PRESENT)


def compare_statistics(
    source: Statistics, target: Statistics, *, compacted: bool, prefix: str = ""
) -> Iterator[Finding]:
    """Yield the differences; with ``compacted``, files of one side have no counterpart, so statistics that
    differ count as not compared.
    """
    expected = source.basic if source.valid else {k: v for k, v in source.basic.items() if k != ACCURATE}
    unmarked = not target.is_accurate
    is_remembered = not target.valid and target.write_id == source.write_id
    named = list_accurate(target.basic)
    names_less = bool(named) and named < list_accurate(source.basic)
    for key in sorted({*source.basic, *target.basic}):
        ours, theirs = source.basic.get(key), target.basic.get(key)
        if theirs in {ours, expected.get(key)}:
            continue
        if compacted or (key == ACCURATE and (unmarked or names_less)):
            yield NotCompared("statistics")
        else:
            yield Difference("statistics", prefix + key, ours, theirs)
    for column in sorted({*source.columns, *target.columns}):
        ours, theirs = source.columns.get(column), target.columns.get(column)
        if ours == theirs:
            continue
        # Hive returns only statistics with the mark of accuracy and a visible write id.
        ignored = (ours is None and not source.valid) or (theirs is None and (unmarked or is_remembered))
        if compacted or ignored:
            yield NotCompared("statistics")
        else:
            yield Difference("statistics", f"{prefix}column {column}", ours, theirs)


_INVISIBLE: Final = frozenset({WriteIdState.ABORTED, WriteIdState.HIDDEN})


def compare_write_id_lists(
    source: ValidWriteIds, target: ValidWriteIds, *, written: Collection[int], compacted_up_to: int
) -> Iterator[Finding]:
    """Yield the write ids for which readers of the two sides see other rows.

    The source forgets an aborted id when nothing is left of its files; the id then looks committed there,
    while the target may still know that it was aborted. No reader misses rows if the source has no files of
    the id (``written`` has those that do). If the source has compacted its files (``compacted_up_to``), this
    cannot be determined; the ids are not compared.
    """
    for ids in compare_write_ids(source, target):
        forgotten = ids.source is WriteIdState.VISIBLE and ids.target in _INVISIBLE
        if forgotten and not any(ids.first <= each <= ids.last for each in written):
            if ids.first <= compacted_up_to:
                yield NotCompared("write-ids", min(ids.last, compacted_up_to) - ids.first + 1)
            continue
        key = str(ids.first) if ids.first == ids.last else f"{ids.first}-{ids.last}"
        yield Difference("write-ids", key, ids.source.value, ids.target.value)
