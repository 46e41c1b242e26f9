"""The metastore's questions about partitions, answered from the index as the metastore answers them.

=================== =========================================================================================
question            answer
=================== =========================================================================================
filter None or ""   all partitions
order               by partition name (as text: ``p=10`` before ``p=2``)
most -1, 0, n       all, none, the first n in that order
unknown table       NotFound (the metastore's NoSuchObjectException)
None for a name     InvalidRequest (MetaException)
filter not usable   BadFilter (MetaException), whose message begins as the metastore's does
=================== =========================================================================================

``by_expr`` gets an expression serialized by Hive with Kryo. Reading that can run code of the sender's choice, so it is read
only where a reader for it is given (``handlers.expressions``). Without one, and for an expression that it cannot read, the answer
is "all partitions, and some of them may not match", which every client has to take, and takes by checking the partitions itself.
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
from state.partitions.index.partition_index import ALL, IndexedPartition, PartitionIndex, first
from state.partitions.keys.partition_key import format_name


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.partitions.index.records import IndexedTable

    ReadExpression = Callable[[bytes], Expression | None]
    """Reads the bytes that Hive's clients send; None where it cannot."""


@dataclass(frozen=True, slots=True)
class ByExprAnswer:
    """Partitions for an expression; ``has_unknown``: some of them may not match."""

    partitions: list[IndexedPartition]
    has_unknown: bool


class PartitionCalls:
    """The calls over one index, in one dialect of the filter language."""

    def __init__(
        self, index: PartitionIndex, dialect: Dialect = HIVE_4, read: ReadExpression | None = None
    ) -> None:
        self._index = index
        self._dialect = dialect
        self._read = read

    def by_filter(
        self, db: str | None, table: str | None, text: str | None, most: int = ALL
    ) -> list[IndexedPartition]:
        """``get_partitions_by_filter``."""
        return self._index.partitions(self._index.prepare(_name(db, table), text or "", self._dialect), most)

    def names_by_filter(
        self, db: str | None, table: str | None, text: str | None, most: int = ALL
    ) -> list[str]:
        """Only the names of ``by_filter``; Hive 4's ``get_partition_names_req``."""
        return self._index.names(self._index.prepare(_name(db, table), text or "", self._dialect), most)

    def count_by_filter(self, db: str | None, table: str | None, text: str | None) -> int:
        """``get_num_partitions_by_filter``."""
        return self._index.count(self._index.prepare(_name(db, table), text or "", self._dialect))

    def names_ps(
        self, db: str | None, table: str | None, values: Sequence[str], most: int = ALL
    ) -> list[str]:
        """``get_partition_names_ps``: values in key order, "" for any, and anything behind the last.

        Values are compared as text, as the metastore does: 5 does not find 05. Raises InvalidRequest for more values than
        columns.
        """
        indexed = self._index.table(_name(db, table))
        form = indexed.form
        if len(values) > len(form.columns):
            raise InvalidRequest(
                "more values than partition columns", values=len(values), columns=len(form.columns)
            )
        filled = [*values, *[""] * (len(form.columns) - len(values))]
        fields = form.fields(filled)
        leaves: list[Condition] = [Leaf(at, point(fields[at])) for at, value in enumerate(filled) if value]
        prepared = self._index.prepared(indexed, all_of(leaves) if leaves else None)
        wanted = [
            format_name([column.name], [value], form.default_partition) if value else None
            for column, value in zip(form.columns, filled, strict=True)
        ]
        names = (name for name in self._index.names(prepared) if _fits(name, wanted))
        return first(names, most)

    def by_expr(self, db: str | None, table: str | None, expression: bytes, most: int = ALL) -> ByExprAnswer:
        """``get_partitions_by_expr``: exact where the expression is read and a filter can say it, else more than matches."""
        indexed = self._index.table(_name(db, table))
        asked = UNKNOWN if self._read is None else self._translated(indexed, self._read(expression))
        bound = None
        if asked.filter is not None:
            try:
                bound = bind(asked.filter, indexed.form.columns, HIVE_4, indexed.form.default_partition)
            except BadFilter:
                asked = UNKNOWN
        found = self._index.partitions(self._index.prepared(indexed, bound), most)
        self._index.counts["answers-unknown"] += not asked.is_exact
        return ByExprAnswer(found, has_unknown=not asked.is_exact)

    @staticmethod
    def _translated(indexed: IndexedTable, expression: Expression | None) -> Translation:
        return UNKNOWN if expression is None else translate(expression, indexed.form.default_partition)


def _name(db: str | None, table: str | None) -> str:
    if db is None or table is None:
        raise InvalidRequest("a database and a table have to be named", db=db, table=table)
    return f"{db}.{table}".lower()


def _fits(name: str, wanted: Sequence[str | None]) -> bool:
    return all(want is None or part == want for part, want in zip(name.split("/"), wanted, strict=True))
