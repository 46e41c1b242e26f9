"""Verifies a policy table by table: compares both sides as of one event of the source, while writers change
both.

One comparison of a table has these steps:

1. Read the position up to which the replica has applied events.
2. Read and compare both sides, page by page. If they are equal, the table is equal as of that position.
3. If they differ, read the source's newest event id. If an event between the two ids concerns the table, the
   difference may be only the time between the reads: wait until the replica has applied that event, and
   compare again.
4. If no event concerns the table, compare again. A difference is reported only if two comparisons find it, so
   that files that a compaction removes between two reads do not count.

After ``ATTEMPTS`` comparisons the table is busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from handlers.replication.target.objects import is_plain_managed, translate_plain_table
from handlers.replication.verification.changes import RecentChanges
from handlers.replication.verification.descriptions import (
    Description,
    compare,
    compare_partitions,
    compare_write_id_lists,
    missing_partition,
)
from handlers.replication.verification.facts import Facts, compare_facts, compare_functions, describe_database
from handlers.replication.verification.findings import (
    PRESENT,
    Difference,
    Findings,
    Kind,
    Outcome,
    TableResult,
)
from handlers.replication.verification.reading import PAGE, OneTable, Side
from handlers.replication.views.obstacles import find_source_obstacle
from state.errors import BadInput, Inconsistent, NotFound, Refused
from state.pieces import in_pieces
from state.transactions.valid_write_ids import ValidWriteIds


ATTEMPTS: Final = 6
LOAD_PARAMETER: Final = "tideline.load"
"""Parameter of a table on the target while its rows are being loaded."""


class Following(Protocol):
    """How far the replica is, and which tables it does not follow."""

    def position(self) -> int:
        """Return the id up to which the replica has applied all events."""

    def wait_for(self, event_id: int) -> bool:
        """Wait until the replica has applied ``event_id``; return False if it makes no progress."""

    def not_followed(self) -> Mapping[str, str]:
        """Return the tables that are not followed, with the reason (quarantined or loading), and functions
        that are left out, as ``NAME()``.
        """


class CompareRows(Protocol):
    """Compares the rows of a table; see ``--rows``."""

    def __call__(self, source: OneTable, target: OneTable, findings: Findings) -> int | None:
        """Add the differences to ``findings``;
        return the number of rows at the source, None if they cannot be compared.
        """


@dataclass(slots=True)
class _Comparison:
    """Reads and findings of one comparison of a table."""

    findings: Findings = field(default_factory=Findings)
    write_ids: tuple[ValidWriteIds | None, ValidWriteIds | None] = (None, None)
    partitions: int = 0
    files: int = 0
    size_bytes: int = 0
    rows: int | None = None
    exists: bool = True
    loading: str | None = None
    """Why the target's table is incomplete."""
    written: set[int] = field(default_factory=set)
    compacted_up_to: int = 0


class Verifier:
    """Compares the tables of one policy. Used by one thread;
    ``source`` and ``target`` have their own metastore clients.
    """

    def __init__(
        self,
        source: Side,
        target: Side,
        following: Following,
        *,
        compare_rows: CompareRows | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._target = target
        self._following = following
        self._compare_rows = compare_rows
        self._beat = beat
        self._policy = source.policy
        self._changes = RecentChanges(source.metastore, source.policy, beat)

    def table_names(self) -> list[str]:
        """Return the tables in scope that at least one side has, sorted."""
        names = {*self._source.metastore.table_names(self._source.db)}
        names |= {*self._target.metastore.table_names(self._target.db)}
        return sorted(name for name in names if self._policy.covers(self._policy.source_db, name))

    def verify_database(self) -> TableResult:
        """Compare the databases themselves, and their functions."""
        return self._repeat("", self._compare_databases)

    def verify_table(self, name: str) -> TableResult:
        """Compare one table. Raises transient errors of either side;
        permanent ones are an outcome of the table.
        """
        reason = self._following.not_followed().get(name)
        if reason is not None:
            return TableResult(table=name, outcome=Outcome.NOT_FOLLOWED, reason=reason)
        try:
            return self._repeat(name, lambda: self._compare_tables(name))
        except (BadInput, Refused, Inconsistent) as error:
            return TableResult(table=name, outcome=Outcome.FAILED, reason=str(error))

    def _repeat(self, name: str, compare_once: Callable[[], _Comparison]) -> TableResult:
        """Compare until a result is certain; see the steps above."""
        earlier: tuple[int, tuple[Difference, ...]] | None = None
        before = newest = 0
        for _ in range(ATTEMPTS):
            before = self._following.position()  # step 1
            self._changes.forget(before)
            comparison = compare_once()  # step 2
            if comparison.loading is not None:
                return TableResult(table=name, outcome=Outcome.NOT_FOLLOWED, reason=comparison.loading)
            if comparison.findings.difference_count == 0:
                return _to_result(name, Outcome.EQUAL, before, comparison)
            newest = self._source.metastore.current_event_id()  # step 3
            self._changes.read(before, newest)
            if self._changes.concern(name, before, newest, comparison.write_ids):
                earlier = None
                if not self._following.wait_for(newest):
                    break
                continue
            signature = comparison.findings.signature()
            if signature == earlier:  # step 4
                return self._report_difference(name, newest, comparison)
            earlier = signature
        reason = (
            f"events between {before}, the replica's position, and {newest}, the source's, concern the table"
        )
        return TableResult(table=name, outcome=Outcome.BUSY, event_id=newest, reason=reason)

    def _report_difference(self, name: str, event_id: int, comparison: _Comparison) -> TableResult:
        """Return the result of a table that differs, unless the reason is that it is no longer followed."""
        reason = self._following.not_followed().get(name)
        if reason is not None:
            return TableResult(table=name, outcome=Outcome.NOT_FOLLOWED, reason=reason)
        return _to_result(name, Outcome.DIFFERS, event_id, comparison)

    def _compare_databases(self) -> _Comparison:
        comparison = _Comparison()
        ours, theirs = (_find_database(side) for side in (self._source, self._target))
        if ours is not None and theirs is not None:
            comparison.findings.add(compare_facts(ours, theirs))
            left_out = self._following.not_followed()
            functions = (self._source.describe_functions(), self._target.describe_functions())
            comparison.findings.add(compare_functions(*functions, left_out))
        elif ours is not theirs:
            comparison.findings.add(
                [_only_on_one_side("database", self._policy.source_db, at_source=ours is not None)]
            )
        return comparison

    def _compare_tables(self, name: str) -> _Comparison:
        comparison = _Comparison()
        ours, theirs = self._find_tables(name)
        comparison.write_ids = (ours.write_ids if ours else None, theirs.write_ids if theirs else None)
        comparison.loading = _why_not_comparable(ours, theirs)
        if comparison.loading is not None:
            return comparison
        if ours is not None and theirs is not None:
            self._compare_present(ours, theirs, comparison)
        elif ours is not None or theirs is not None:
            comparison.findings.add([_only_on_one_side("table", name, at_source=ours is not None)])
        return comparison

    def _find_tables(self, name: str) -> tuple[OneTable | None, OneTable | None]:
        """Return the table on both sides; a plain managed table of the source in the form into which the
        target's metastore translates it.
        """
        ours, theirs = self._source.find_table(name), self._target.find_table(name)
        if ours is None or theirs is None or not is_plain_managed(ours.table):
            return ours, theirs
        table = translate_plain_table(ours.table, self._target.metastore)
        return replace(ours, table=table, is_placed_by_target=True), replace(theirs, is_placed_by_target=True)

    def _compare_present(self, ours: OneTable, theirs: OneTable, comparison: _Comparison) -> None:
        description = ours.describe()
        comparison.findings.add(compare(description, theirs.describe()))
        _count(description, comparison)
        if ours.is_partitioned and theirs.is_partitioned:
            self._compare_pages(ours, theirs, comparison)
        if ours.write_ids is not None and theirs.write_ids is not None:
            comparison.findings.add(
                compare_write_id_lists(
                    ours.write_ids,
                    theirs.write_ids,
                    written=comparison.written,
                    compacted_up_to=comparison.compacted_up_to,
                )
            )
        if self._compare_rows is not None and ours.has_files and theirs.has_files:
            comparison.rows = self._compare_rows(ours, theirs, comparison.findings)

    def _compare_pages(self, ours: OneTable, theirs: OneTable, comparison: _Comparison) -> None:
        """Compare the partitions page by page: first the names, then the partitions that both sides have."""
        names, others = ours.partition_names(), theirs.partition_names()
        comparison.findings.add(
            missing_partition(name, at_source=True) for name in sorted({*names} - {*others})
        )
        comparison.findings.add(
            missing_partition(name, at_source=False) for name in sorted({*others} - {*names})
        )
        both = sorted({*names} & {*others})
        for page in in_pieces(both, PAGE):
            described = ours.describe_partitions(page)
            comparison.findings.add(compare_partitions(described, theirs.describe_partitions(page)))
            for each in described.values():
                _count(each, comparison)
            comparison.partitions += len(described)
            self._beat()


def _find_database(side: Side) -> Facts | None:
    try:
        return describe_database(side.metastore.get_database(side.db))
    except NotFound:
        return None


def _count(description: Description, comparison: _Comparison) -> None:
    comparison.files += description.file_count
    comparison.size_bytes += description.size_bytes
    comparison.written |= description.written_ids()
    comparison.compacted_up_to = max(comparison.compacted_up_to, description.compacted_up_to())


def _why_not_comparable(ours: OneTable | None, theirs: OneTable | None) -> str | None:
    obstacle = None
    if ours is not None:
        obstacle = find_source_obstacle(ours.table, ours.side.policy, ours.side.metastore)
    if obstacle is not None:
        return obstacle.reason
    if theirs is not None and LOAD_PARAMETER in (theirs.table.parameters or {}):
        return "loading"
    return None


def _only_on_one_side(kind: Kind, name: str, *, at_source: bool) -> Difference:
    return Difference(kind, name, PRESENT if at_source else None, None if at_source else PRESENT)


def _to_result(name: str, outcome: Outcome, event_id: int, comparison: _Comparison) -> TableResult:
    return TableResult(
        table=name,
        outcome=outcome,
        event_id=event_id,
        differences=tuple(comparison.findings.differences),
        difference_count=comparison.findings.difference_count,
        not_compared=tuple(sorted(comparison.findings.not_compared.items())),
        partitions=comparison.partitions,
        files=comparison.files,
        size_bytes=comparison.size_bytes,
        rows=comparison.rows,
    )
