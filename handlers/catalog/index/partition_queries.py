"""The metastore's questions about partitions, answered with what the metastore would send.

For any thread: each answer is of one moment, between two transactions of the catalog. ``read`` reads the expressions of
``get_partitions_by_expr``; without it that call's answer is all partitions, some of which may not match.
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

    from handlers.catalog.index.partition_follower import PartitionFollower
    from handlers.structs.objects import Partition
    from state.partitions.index.explanation import Explanation
    from state.partitions.index.metastore_calls import ReadExpression
    from state.partitions.index.partition_index import IndexedPartition


class QueryObserver(Protocol):
    """Receives what answers cost; implementations are thread-safe and never raise."""

    def answered(self, call: str, seconds: float, costs: Mapping[str, int], matched: int) -> None:
        """A question was answered with so many partitions; ``costs`` are the differences of the index's ``counts``."""


class PartitionQueries:
    """The calls over one follower's index, in one dialect of the filter language.

    Every call raises NotFound for a table that is not indexed, InvalidRequest for a missing name, BadFilter or LimitExceeded for a
    filter, with the position of the mistake. ``limit`` is a number of partitions, -1 for all; the first in the order of names
    are given.
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
        self._read = read
        self._observer = observer

    def by_filter(
        self, db: str | None, table: str | None, text: str | None, limit: int = NO_LIMIT
    ) -> list[Partition]:
        """``get_partitions_by_filter``."""
        with self._asked("by_filter", db, table) as asked:
            return asked.whole(asked.calls.by_filter(db, table, text, limit))

    def names_by_filter(
        self, db: str | None, table: str | None, text: str | None, limit: int = NO_LIMIT
    ) -> list[str]:
        """Only the names of ``by_filter``."""
        with self._asked("names_by_filter", db, table) as asked:
            return asked.counted(asked.calls.names_by_filter(db, table, text, limit))

    def count_by_filter(self, db: str | None, table: str | None, text: str | None) -> int:
        """``get_num_partitions_by_filter``."""
        with self._asked("count_by_filter", db, table) as asked:
            asked.matched = asked.calls.count_by_filter(db, table, text)
            return asked.matched

    def names_ps(
        self, db: str | None, table: str | None, values: Sequence[str], limit: int = NO_LIMIT
    ) -> list[str]:
        """``get_partition_names_ps``: values in key order, "" for any, and anything behind the last."""
        with self._asked("names_ps", db, table) as asked:
            return asked.counted(asked.calls.names_ps(db, table, values, limit))

    def by_expr(
        self, db: str | None, table: str | None, expression: bytes, limit: int = NO_LIMIT
    ) -> tuple[list[Partition], bool]:
        """``get_partitions_by_expr``: partitions, and whether some of them may not match."""
        tree = None if self._read is None else self._read(expression)  # before anybody has to wait for us
        with self._asked("by_expr", db, table) as asked:
            calls = PartitionCalls(self._follower.index, self._dialect, lambda _: tree)
            answer = calls.by_expr(db, table, expression, limit)
            return asked.whole(answer.partitions), answer.has_unknown

    def explain(self, db: str, table: str, text: str) -> Explanation:
        """Tell how a filter is answered; it is run for that."""
        with self._asked("explain", db, table) as asked:
            explanation = self._follower.index.explain(asked.name, text, self._dialect)
            asked.matched = explanation.matched_rows
            return explanation

    @contextmanager
    def _asked(self, call: str, db: str | None, table: str | None) -> Iterator[_Asked]:
        started = time.perf_counter()
        with self._follower.lock():
            index = self._follower.index
            name = f"{db}.{table}".lower()
            if db is not None and table is not None and name not in self._follower.indexed:
                raise NotFound("the table is not in the partition index", table=name)
            before = index.counts.copy()
            asked = _Asked(self._follower, PartitionCalls(index, self._dialect), name)
            yield asked
            costs = index.counts - before
        if self._observer is not None:
            self._observer.answered(call, time.perf_counter() - started, costs, asked.matched)


class _Asked:
    """One question while it is answered."""

    def __init__(self, follower: PartitionFollower, calls: PartitionCalls, name: str) -> None:
        self._follower = follower
        self.calls = calls
        self.name = name
        self.matched = 0

    def whole(self, found: Sequence[IndexedPartition]) -> list[Partition]:
        """Return what the metastore would send for each."""
        self.matched = len(found)
        return [self._follower.whole(self.name, one) for one in found]

    def counted(self, names: list[str]) -> list[str]:
        """Return the names, counted."""
        self.matched = len(names)
        return names
