"""Descriptions of a table or partition on one side as values, and their comparison: pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from handlers.replication.verification.facts import Facts, compare_facts
from handlers.replication.verification.file_rules import (
    AcidFiles,
    Files,
    compare_acid_files,
    compare_files,
)
from handlers.replication.verification.findings import PRESENT, Difference, Finding, Kind, NotCompared
from handlers.replication.verification.statistics import Statistics, compare_statistics


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
    """What has no counterpart by design, such as a foreign key to a table that is not replicated."""

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
        """Return the write ids of which there are files that were not compacted."""
        return {
            directory.last
            for directory, files in self.acid_files.items()
            if files and not directory.compacted and directory.last > 0
        }

    def compacted_up_to(self) -> int:
        """Return the highest write id that a compaction has covered, 0 if there is none."""
        return max((each.last for each in self.acid_files if each.compacted), default=0)


def compare(source: Description, target: Description, prefix: str = "") -> Iterator[Finding]:
    """Yield what differs between both sides of a table or partition; ``prefix`` is put in front of every key.

    A source without a location has a partition outside of the table's directory, whose copy may be anywhere. After SET LOCATION of a
    partitioned table, the source's older partitions are outside, and their copies stay where they are.
    """
    yield from source.not_compared
    placed = target.facts if _LOCATION in source.facts else _without_location(target.facts)
    yield from compare_facts(source.facts, placed, prefix)
    in_files = [
        *compare_files(source.files, target.files, prefix),
        *compare_acid_files(source.acid_files, target.acid_files, prefix),
    ]
    yield from in_files
    compacted = any(isinstance(finding, NotCompared) for finding in in_files)
    yield from compare_statistics(source.statistics, target.statistics, compacted=compacted, prefix=prefix)


def _without_location(facts: Facts) -> Facts:
    return {fact: value for fact, value in facts.items() if fact != _LOCATION}


def compare_partitions(
    source: Mapping[str, Description], target: Mapping[str, Description]
) -> Iterator[Finding]:
    """Yield what differs between the partitions of both sides, by name."""
    for name in sorted({*source, *target}):
        ours, theirs = source.get(name), target.get(name)
        if ours is None or theirs is None:
            yield missing_partition(name, at_source=ours is not None)
        else:
            yield from compare(ours, theirs, f"{name} ")


def missing_partition(name: str, *, at_source: bool) -> Difference:
    """Return the difference of a partition that only one side has."""
    return Difference("partition", name, PRESENT if at_source else None, None if at_source else PRESENT)
