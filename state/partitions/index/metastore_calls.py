"""Answers the metastore's partition calls from the index, as the metastore answers them.

=================== =========================================================================================
call                answer
=================== =========================================================================================
filter None or ""   all partitions
order               by partition name (as text: ``p=10`` before ``p=2``)
limit -1, 0, n      all, none, the first n in that order
unknown table       NotFound (the metastore's NoSuchObjectException)
None for a name     InvalidRequest (MetaException)
unusable filter     BadFilter (MetaException); the message begins as the metastore's
=================== =========================================================================================

``by_expr`` receives an expression that Hive serialized with Kryo. Deserializing it can run code of the sender's choice, so it is read
only through a function given for this purpose (``handlers.expressions``). Without one, and for an expression that cannot be read, the
answer is "all partitions, and some of them may not match". Every client must accept this answer and checks the partitions
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.errors import BadFilter, InvalidRequest
from state.partitions.filters.binder import bind
from state.partitions.filters.conditions import Condition, Leaf, all_of
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.hive_expressions import UNKNOWN, Expression, Translation, translate
from state.partitions.filters.intervals import point
from state.partitions.index.partition_index import NO_LIMIT, IndexedPartition, PartitionIndex, take_first
from state.partitions.keys.partition_key import format_name


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.partitions.index.prepared_filters import PreparedFilter
    from state.partitions.index.records import IndexedTable
    from state.partitions.keys.partition_key import KeySchema

    ReadExpression = Callable[[bytes], Expression | None]
    """Reads the bytes that Hive's clients send; returns None for unreadable ones."""


@dataclass(frozen=True, slots=True)
class ByExprAnswer:
    """The partitions of an expression; ``has_unknown``: some of them may not match."""

    partitions: list[IndexedPartition]
    has_unknown: bool


class PartitionCalls:
    """The partition calls on one index, in one dialect of the filter language."""

    def __init__(
        self, index: PartitionIndex, dialect: Dialect = HIVE_4, read: ReadExpression | None = None
    ) -> None:
        self._index = index
        self._dialect = dialect
        self._read = read

    def by_filter(
        self, db: str | None, table: str | None, text: str | None, limit: int = NO_LIMIT
    ) -> list[IndexedPartition]:
        """``get_partitions_by_filter``."""
        return self._index.partitions(
            self._index.prepare(_qualify(db, table), text or "", self._dialect), limit
        )

    def names_by_filter(
        self, db: str | None, table: str | None, text: str | None, limit: int = NO_LIMIT
    ) -> list[str]:
        """Only the names of ``by_filter``; Hive 4's ``get_partition_names_req``."""
        return self._index.names(self._index.prepare(_qualify(db, table), text or "", self._dialect), limit)

    def count_by_filter(self, db: str | None, table: str | None, text: str | None) -> int:
        """``get_num_partitions_by_filter``."""
        return self._index.count(self._index.prepare(_qualify(db, table), text or "", self._dialect))

    def names_ps(
        self, db: str | None, table: str | None, values: Sequence[str], limit: int = NO_LIMIT
    ) -> list[str]:
        """``get_partition_names_ps``: values in key order, "" for any value; columns after the last are not limited.

        Values are compared as text, as in the metastore: 5 does not match 05. Raises InvalidRequest for more values than
        columns.
        """
        prepared, expected = self.prepare_ps(_qualify(db, table), values)
        names = (name for name in self._index.names(prepared) if matches(name, expected))
        return take_first(names, limit)

    def prepare_ps(self, name: str, values: Sequence[str]) -> tuple[PreparedFilter, list[str | None]]:
        """Plan a partial specification of ``names_ps``; return also the parts that a name must have (see ``matches``)."""
        indexed = self._index.table(name)
        schema = indexed.key_schema
        if len(values) > len(schema.columns):
            raise InvalidRequest(
                "there are more values than partition columns",
                values=len(values),
                columns=len(schema.columns),
            )
        filled = [*values, *[""] * (len(schema.columns) - len(values))]
        expected = [
            format_name([column.name], [value], schema.default_partition) if value else None
            for column, value in zip(schema.columns, filled, strict=True)
        ]
        prepared = self._index.prepare_condition(
            indexed, f"ps {filled!r}", lambda: _condition_of(schema, filled)
        )
        return prepared, expected

    def by_expr(
        self, db: str | None, table: str | None, expression: bytes, limit: int = NO_LIMIT
    ) -> ByExprAnswer:
        """``get_partitions_by_expr``: exact where a filter can express the expression, otherwise a superset."""
        indexed = self._index.table(_qualify(db, table))
        translation = UNKNOWN if self._read is None else self._translate(indexed, self._read(expression))
        condition = None
        if translation.filter is not None:
            try:
                condition = bind(
                    translation.filter,
                    indexed.key_schema.columns,
                    HIVE_4,
                    indexed.key_schema.default_partition,
                )
            except BadFilter:
                translation = UNKNOWN
        found = self._index.partitions(self._index.plan(indexed, condition), limit)
        self._index.counts["answers-unknown"] += not translation.is_exact
        return ByExprAnswer(found, has_unknown=not translation.is_exact)

    @staticmethod
    def _translate(indexed: IndexedTable, expression: Expression | None) -> Translation:
        return UNKNOWN if expression is None else translate(expression, indexed.key_schema.default_partition)


def _qualify(db: str | None, table: str | None) -> str:
    if db is None or table is None:
        raise InvalidRequest("a database and a table must be named", db=db, table=table)
    return f"{db}.{table}".lower()


def _condition_of(schema: KeySchema, values: Sequence[str]) -> Condition | None:
    fields = schema.fields(values)
    leaves: list[Condition] = [Leaf(at, point(fields[at])) for at, value in enumerate(values) if value]
    return all_of(leaves) if leaves else None


def matches(name: str, expected: Sequence[str | None]) -> bool:
    """Whether a partition's name has the expected parts; None stands for any."""
    return all(value is None or part == value for part, value in zip(name.split("/"), expected, strict=True))
