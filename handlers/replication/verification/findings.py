"""Results of a comparison: typed differences, counts of uncompared objects, and the outcome of each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal


Kind = Literal[
    "database",
    "function",
    "table",
    "type",
    "owner",
    "column",
    "partition-column",
    "storage",
    "location",
    "parameter",
    "view",
    "constraint",
    "write-ids",
    "partition",
    "file",
    "statistics",
    "rows",
]
"""Subject of a difference."""

PRESENT: Final = "present"
"""Value of an object that only one side has, if the object itself has no short value."""
LISTED_MAX: Final = 1_000
"""Listed differences of one table; the others only count."""


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One difference. None stands for a value that does not exist on that side."""

    kind: Kind
    key: str
    """The differing item: the name of a parameter, column, partition or file; for parts of a partition, after
    the partition's name."""
    source: str | None
    target: str | None

    def __str__(self) -> str:
        """``parameter comment: 'a' at the source, missing on the target``."""
        ours = "missing" if self.source is None else repr(self.source)
        theirs = "missing" if self.target is None else repr(self.target)
        return f"{self.kind} {self.key}: {ours} at the source, {theirs} on the target"


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Something that cannot be compared, because each side may change it independently."""

    what: Literal["files", "write-ids", "statistics", "locations", "constraints", "functions", "rows"]
    count: int = 1


Finding = Difference | NotCompared


class Outcome(StrEnum):
    """The outcome of one table."""

    EQUAL = "equal"
    DIFFERS = "differs"
    BUSY = "busy"
    """The table changed too often, or the replica is behind, so that both sides were never read as of one
    event.
    """
    NOT_FOLLOWED = "not-followed"
    """The table is quarantined or being loaded; its difference is expected and has another remedy."""
    FAILED = "failed"
    """The table was unreadable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult:
    """The outcome of one table, or of the database itself if ``table`` is empty."""

    table: str
    outcome: Outcome
    event_id: int | None = None
    """The source's event as of which both sides were compared."""
    differences: tuple[Difference, ...] = ()
    """At most ``LISTED_MAX``, in order."""
    difference_count: int = 0
    not_compared: tuple[tuple[str, int], ...] = ()
    """Counts of uncompared objects, by name."""
    partitions: int = 0
    files: int = 0
    size_bytes: int = 0
    """Bytes of the compared files at the source."""
    rows: int | None = None
    """Rows at the source; None if rows were not compared."""
    reason: str | None = None
    """Why the table is busy, not followed or failed."""


@dataclass(slots=True)
class Findings:
    """Collects findings in bounded memory, however much differs."""

    differences: list[Difference] = field(default_factory=list)
    difference_count: int = 0
    not_compared: Counter[str] = field(default_factory=Counter)

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings."""
        for finding in findings:
            if isinstance(finding, NotCompared):
                self.not_compared[finding.what] += finding.count
                continue
            self.difference_count += 1
            if len(self.differences) < LISTED_MAX:
                self.differences.append(finding)

    def signature(self) -> tuple[int, tuple[Difference, ...]]:
        """Return the common part of two comparisons of an unchanged table."""
        return self.difference_count, tuple(sorted(self.differences, key=str))
