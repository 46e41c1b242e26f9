"""Answers the metastore's partition queries with whole partitions, as the metastore would send them.

Thread-safe: every answer comes from one snapshot, so it reflects the state between two transactions of the catalog. ``read`` reads the expressions of
``get_partitions_by_expr``; without it, the answer to that call is all partitions, some of which may not match.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from state.errors import NotFound
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.index.metastore_calls import PartitionCalls
from state.partitions.index.partition_index import NO_LIMIT


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from handlers.catalog.following.states.table_state import TableState
    from handlers.catalog.index.partition_follower import FollowerSnapshot, PartitionFollower
    from handlers.structs.objects import Partition
    from state.partitions.index.explanation import Explanation
    from state.partitions.index.metastore_calls import ReadExpression
    from state.partitions.index.partition_index import IndexedPartition


class QueryObserver(Protocol):
    """Receives the cost of answers; implementations are thread-safe and never raise."""

    def query_answered(self, call: str, seconds: float, costs: Mapping[str, int], matched: int) -> None:
        """A query was answered with ``matched`` partitions; ``costs`` are the differences of the index's ``counts``."""


class PartitionQueries:
    """The partition queries on one follower's index, in one dialect of the filter language.

    Every query raises NotFound for a table that is not indexed, InvalidRequest for a missing name, BadFilter with the position of the
    error, FilterTooExpensive, or LimitExceeded for a filter or an answer. ``limit`` is a number of partitions, -1 for all; the answer
    contains the first in the order of names. Made for one thread.
    """

    def __init__(
        self,
        follower: PartitionFollower,
        *,
        dialect: Dialect = HIVE_4,
        read: ReadExpression | None = None,
        observer: QueryObserver | None = None,
    ) -> None:
        self._follower = follower
        self._dialect = dialect
        self._parse_record = read
        self._observer = observer
        self.event_id: int | None = None
        """The event id that the last answer reflects; None where only the catalog knows it."""
        self.table_state: TableState | None = None
        """The state of the table at that event; None where only the catalog knows it."""

    def by_filter(
        self, db: str | None, table: str | None, text: str | None, limit: int = NO_LIMIT
    ) -> list[Partition]:
        """``get_partitions_by_filter``."""
        with self._query("by_filter", db, table) as query:
            return query.whole(query.calls.by_filter(db, table, text, limit))

    def names_by_filter(
        self, db: str | None, table: str | None, text: str | None, limit: int = NO_LIMIT
    ) -> list[str]:
        """Only the names of ``by_filter``."""
        with self._query("names_by_filter", db, table) as query:
            return query.count(query.calls.names_by_filter(db, table, text, limit))

    def count_by_filter(self, db: str | None, table: str | None, text: str | None) -> int:
        """``get_num_partitions_by_filter``."""
        with self._query("count_by_filter", db, table) as query:
            query.matched = query.calls.count_by_filter(db, table, text)
            return query.matched

    def names_ps(
        self, db: str | None, table: str | None, values: Sequence[str], limit: int = NO_LIMIT
    ) -> list[str]:
        """``get_partition_names_ps``: values in key order, "" for any value; columns after the last are not limited."""
        with self._query("names_ps", db, table) as query:
            return query.count(query.calls.names_ps(db, table, values, limit))

    def by_expr(
        self, db: str | None, table: str | None, expression: bytes, limit: int = NO_LIMIT
    ) -> tuple[list[Partition], bool]:
        """``get_partitions_by_expr``: partitions, and whether some of them may not match."""
        tree = None if self._parse_record is None else self._parse_record(expression)  # before the snapshot
        with self._query("by_expr", db, table) as query:
            calls = PartitionCalls(query.snapshot.index, self._dialect, lambda _: tree)
            answer = calls.by_expr(db, table, expression, limit)
            return query.whole(answer.partitions), answer.has_unknown

    def explain(self, db: str, table: str, text: str) -> Explanation:
        """Run a filter and explain how it is answered."""
        with self._query("explain", db, table) as query:
            explanation = query.snapshot.index.explain(query.name, text, self._dialect)
            query.matched = explanation.matched_rows
            return explanation

    @contextmanager
    def _query(self, call: str, db: str | None, table: str | None) -> Iterator[_Query]:
        started = time.perf_counter()
        with self._follower.snapshot() as snapshot:
            name = f"{db}.{table}".lower()
            if db is not None and table is not None and not snapshot.is_indexed(name, self._follower.indexed):
                raise NotFound("the table is not in the partition index", table=name)
            self.event_id, self.table_state = snapshot.event_id(), snapshot.table_state(name)
            query = _Query(snapshot, PartitionCalls(snapshot.index, self._dialect), name)
            yield query
        if self._observer is not None:
            self._observer.query_answered(
                call, time.perf_counter() - started, snapshot.index.counts, query.matched
            )


class _Query:
    """One query while it is answered."""

    def __init__(self, snapshot: FollowerSnapshot, calls: PartitionCalls, name: str) -> None:
        self.snapshot = snapshot
        self.calls = calls
        self.name = name
        self.matched = 0

    def whole(self, found: Sequence[IndexedPartition]) -> list[Partition]:
        """Return each partition as the metastore would send it."""
        self.matched = len(found)
        return self.snapshot.whole(self.name, found)

    def count(self, names: list[str]) -> list[str]:
        """Count the names and return them."""
        self.matched = len(names)
        return names
