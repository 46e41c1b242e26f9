"""Finds partitions of one table as the metastore's calls name them, and as the metastore answers them.

=================== =========================================================================================
call                answer
=================== =========================================================================================
filter None or ""   all partitions
order               by partition name (as text: ``p=10`` before ``p=2``)
limit -1, 0, n      all, none, the first n in that order
unknown table       NotFound (the metastore's NoSuchObjectException)
unusable filter     BadFilter (MetaException); the message begins as the metastore's
=================== =========================================================================================

A lookup plans and reads nothing yet. The result gives the names, the payloads or the number of the
partitions. The JSON answers and the metastore's own protocol share it: there is only one way to find a
partition.

Hive serializes an expression with Kryo. Deserializing it can run code of the sender's choice, so only a
separate process reads it (``handlers.expressions``). For an unread expression, or one that no filter can
express, the answer is "all partitions, and some of them may not match". Every client must accept this answer
and checks the partitions itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from state.errors import BadFilter, InvalidRequest
from state.partitions.filters.conditions import Condition, Leaf, all_of
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.hive_expressions import Expression, translate
from state.partitions.filters.intervals import point
from state.partitions.filters.syntax_tree import Node
from state.partitions.index.partition_index import NO_LIMIT, PartitionIndex
from state.partitions.index.prepared_filters import PreparedFilter
from state.partitions.index.records import IndexedTable
from state.partitions.keys.partition_key import KeySchema, format_name


_ANY_PART: Final = b"[^/]*"


@dataclass(frozen=True, slots=True)
class Selection:
    """The first ``limit`` partitions that a plan finds and whose names match ``pattern``,
    in the order of names.
    """

    index: PartitionIndex
    prepared: PreparedFilter
    limit: int = NO_LIMIT
    pattern: re.Pattern[bytes] | None = None

    def names(self) -> list[bytes]:
        """Return the names, in UTF-8."""
        if self.pattern is None:
            return self.index.find_names(self.prepared, self.limit)
        names = list(filter(self.pattern.fullmatch, self.index.find_names(self.prepared)))
        return names if self.limit < 0 else names[: self.limit]

    def payloads(self) -> list[tuple[bytes, bytes]]:
        """Return (name, payload) of each partition; raise LimitExceeded."""
        if self.pattern is None:
            return self.index.find_payloads(self.prepared, self.limit)
        matches = self.pattern.fullmatch
        pairs = [pair for pair in self.index.find_payloads(self.prepared) if matches(pair[0])]
        return pairs if self.limit < 0 else pairs[: self.limit]

    def count(self) -> int:
        """Return the number of partitions."""
        is_whole = self.pattern is None and self.limit < 0
        return self.index.count(self.prepared) if is_whole else len(self.names())


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Partitions by name: (name, row) in the order of names. Leaves out those that do not exist."""

    index: PartitionIndex
    table: IndexedTable
    rows: Sequence[tuple[bytes, bytes]]

    def names(self) -> list[bytes]:
        """Return the names, in UTF-8."""
        return [name for name, _ in self.payloads()]

    def payloads(self) -> list[tuple[bytes, bytes]]:
        """Return (name, payload) of each partition."""
        stored = self.index.payloads(self.table, [row for _, row in self.rows])
        pairs = zip(self.rows, stored, strict=True)
        return [(name, payload) for (name, _), payload in pairs if payload is not None]


@dataclass(frozen=True, slots=True)
class TableLookups:
    """The lookups in one table of an index, in one dialect of the filter language;
    they raise NotFound, LimitExceeded.
    """

    index: PartitionIndex
    name: str
    """``db.table`` in lower case."""
    dialect: Dialect = HIVE_4

    @property
    def schema(self) -> KeySchema:
        """The key of the table."""
        return self.index.table(self.name).key_schema

    def by_filter(self, text: str | None, limit: int = NO_LIMIT) -> Selection:
        """Find the partitions that a filter selects; raise BadFilter."""
        return Selection(self.index, self.index.prepare(self.name, text or "", self.dialect), limit)

    def by_tree(self, tree: Node, limit: int = NO_LIMIT) -> Selection:
        """Find the partitions that a syntax tree selects; raise BadFilter."""
        return Selection(self.index, self.index.prepare_node(self.index.table(self.name), tree), limit)

    def by_expression(self, expression: Expression | None, limit: int = NO_LIMIT) -> tuple[Selection, bool]:
        """Find the partitions that Hive's expression selects; None as ``expression`` means that it is unread.

        Returns also whether the selection is exact: if not, some of its partitions may not match.
        """
        if expression is not None:
            translation = translate(expression, self.schema.default_partition)
            try:
                tree = translation.filter
                selection = self.by_filter("", limit) if tree is None else self.by_tree(tree, limit)
            except BadFilter:
                pass  # the columns do not allow the comparison
            else:
                self.index.counts["answers-unknown"] += not translation.is_exact
                return selection, translation.is_exact
        self.index.counts["answers-unknown"] += 1
        return self.by_filter("", limit), False

    def by_values(self, values: Sequence[str], limit: int = NO_LIMIT) -> Selection:
        """Find the partitions with these values in key order, "" for any value; columns after the last are
        unlimited.

        Values compare as text, as in the metastore: 5 does not match 05. Raises InvalidRequest for more
        values than columns.
        """
        table, schema = self.index.table(self.name), self.schema
        if len(values) > len(schema.columns):
            raise InvalidRequest(
                "there are more values than partition columns",
                values=len(values),
                columns=len(schema.columns),
            )
        filled = [*values, *[""] * (len(schema.columns) - len(values))]
        prepared = self.index.prepare_condition(
            table, f"ps {filled!r}", lambda: _make_condition(schema, filled)
        )
        pattern = _make_pattern(schema, filled) if any(filled) else None
        return Selection(self.index, prepared, limit, pattern)

    def by_names(self, names: Iterable[str]) -> NamedRows:
        """Find partitions by their names, each one once."""
        schema = self.schema
        rows = {}
        for name in names:
            parts = [part.partition("=")[2] for part in name.split("/")]
            values = [unquote(part, "latin-1") for part in parts] if "%" in name else parts
            if len(values) == len(schema.columns) and schema.name(values) == name:
                rows[name.encode(errors="surrogatepass")] = schema.row(values, name=name)
        return NamedRows(self.index, self.index.table(self.name), sorted(rows.items()))

    def by_key(self, values: Sequence[str]) -> NamedRows:
        """Find the partition with these values, one for each column, without its name."""
        return NamedRows(self.index, self.index.table(self.name), [(b"", self.schema.row(values))])


def _make_condition(schema: KeySchema, values: Sequence[str]) -> Condition | None:
    fields = schema.fields(values)
    leaves: list[Condition] = [Leaf(at, point(fields[at])) for at, value in enumerate(values) if value]
    return all_of(leaves) if leaves else None


def _make_pattern(schema: KeySchema, values: Sequence[str]) -> re.Pattern[bytes]:
    """Return the pattern of names with these values; "" stands for any."""
    parts = []
    for column, value in zip(schema.columns, values, strict=True):
        part = format_name([column.name], [value], schema.default_partition)
        parts.append(re.escape(part.encode(errors="surrogatepass")) if value else _ANY_PART)
    return re.compile(b"/".join(parts))
