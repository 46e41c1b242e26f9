"""Compares the statistics of a table or partition on both sides.

Statistics depend on files, so a compaction on one side changes them there. Hive logs them before the transaction ends; if it
aborts, replay removes the mark of accuracy on the target, while readers of the source ignore the statistics because of their
write id. Such statistics are counted as not compared. So are those of a transactional table whose mark on the target names columns
only: Hive then uses none of them. Statistics of columns that arrive after such an abort leave a mark of this kind.

A rename gives its write id to all partitions. If its transaction aborts, readers ignore their statistics until Hive forgets the abort,
on each side at a time of its own. If the source has forgotten it before the target, such statistics are not compared either.

A mark of the target that names less than that of the source is not compared either, because it makes queries slower and never wrong. If a
partition has no mark, Hive 4.2 also marks its basic statistics as accurate when it sets those of columns
(``DirectSqlUpdatePart.updatePartitionParamTable``), whether they are or not. The target does not repeat this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.replication.target.objects import ACCURATE, STATISTICS, list_accurate
from handlers.replication.verification.findings import Difference, Finding, NotCompared


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
    """That of the last change of the table or partition; 0 if it has none."""
    transactional: bool = False

    @property
    def is_accurate(self) -> bool:
        """Whether Hive may use them. For a transactional table, the mark must also name the basic ones."""
        mark = self.basic.get(ACCURATE)
        return mark is not None and (not self.transactional or "BASIC_STATS" in mark)

    @staticmethod
    def select(parameters: Mapping[str, str] | None) -> dict[str, str]:
        """Return the basic statistics among ``parameters``."""
        return {key: value for key, value in (parameters or {}).items() if key in STATISTICS}


def compare_statistics(
    source: Statistics, target: Statistics, *, compacted: bool, prefix: str = ""
) -> Iterator[Finding]:
    """Yield the differences; with ``compacted``, files of one side have no counterpart, and nothing that differs is a difference."""
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
        # Hive returns no statistics that are not marked as accurate, or whose write id is invisible.
        ignored = (ours is None and not source.valid) or (theirs is None and (unmarked or is_remembered))
        if compacted or ignored:
            yield NotCompared("statistics")
        else:
            yield Difference("statistics", f"{prefix}column {column}", ours, theirs)
