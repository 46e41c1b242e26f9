"""Answers about partitions as plain values, for HTTP and for the command line.

While a table is ``loading``, its answers reflect the state before the load. An answer has a maximum length,
and says if it is truncated.
"""

from __future__ import annotations

import time
from base64 import b64decode
from bisect import insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import unquote

from daemon.catalog.answers import CatalogAnswers, SourceView
from daemon.catalog.queries import Answer
from daemon.partitions.metrics import PartitionMeasures
from daemon.partitions.queries import (
    NAMES_MAX,
    PARTITIONS_MAX,
    CountPartitions,
    ExplainFilter,
    FilterPartitions,
    FilterQuery,
    ListTables,
    NamesByValues,
    PartitionQuery,
    PartitionsByExpression,
    TableQuery,
)
from handlers.catalog.following.table_state import LoadProgress
from handlers.catalog.index.partition_follower import PartitionFollower
from handlers.catalog.index.partition_snapshot import PartitionSnapshot
from handlers.structs.objects import Partition
from handlers.structs.struct import Struct
from state.errors import BadInput, NotFound
from state.partitions.filters.dialect import HIVE_2, HIVE_4, Dialect
from state.partitions.filters.hive_expressions import Expression, ReadExpression
from state.partitions.index.explanation import explain_filter
from state.partitions.index.lookups import Selection


DIALECTS: Final = {"hive4": HIVE_4, "hive2": HIVE_2}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsView(SourceView):
    """A snapshot of one source's partition index."""

    follower: PartitionFollower
    under_load: Mapping[str, LoadProgress]
    observer: PartitionMeasures | None = None
    read: ReadExpression | None = None
    """Reads the expressions of ``PartitionsByExpression``; None if this is switched off."""

    def tables(self) -> Collection[str]:
        """Return the tables in the index."""
        return self.follower.indexed

    def listed_tables(self) -> Sequence[str]:
        """Return the tables in the index, and those whose first load is in progress."""
        indexed = self.follower.indexed
        names = indexed.names()
        for name in self.under_load:
            if name not in indexed:
                insort(names, name)
        return names

    def rows(self, source: str, tables: Sequence[str]) -> list[Answer]:
        """Return each table with its columns and the progress of its load."""
        return [{"source": source, **self._row(table)} for table in tables]

    def counts(self) -> Answer:
        """Return how many partitions there are."""
        return {"partitions": sum(count for _, count in self.follower.indexed.items())}

    def read_expression(self, query: TableQuery) -> Expression | None:
        """Return the expression of a query; None if it has none, or if expressions are switched off."""
        if not isinstance(query, PartitionsByExpression):
            return None
        serialized = _decode(query.expr)
        return None if self.read is None else self.read(serialized)

    def _row(self, table: str) -> Answer:
        load = self.under_load.get(table)
        indexed = table in self.follower.indexed
        stored = self.follower.index.known_tables().get(table) if indexed else None
        columns = () if stored is None else stored.key_schema.columns
        return {
            "table": table,
            "state": self.state(table),
            "problem": self.quarantined.get(table),
            "table_state": self.describe_state(table),
            "columns": [[column.name, column.declared] for column in columns],
            "partitions": self.follower.indexed.get(table),
            "loading": None if load is None else {"done": load.done, "total": load.total},
        }


class PartitionAnswers(CatalogAnswers[PartitionsView]):
    """Answers queries from several sources, each from one snapshot of the index. Thread-safe."""

    no_source = "the source has no partition index"
    no_branch = "no partition index is configured"
    source_hint = "Add 'partitions' to the source's catalog in the configuration."
    no_table = "the table is not in the partition index"
    table_hint = "Run 'tideline partitions list' to list the indexed tables."
    subject = "table"

    def answer(self, query: PartitionQuery) -> Answer:
        """Return the answer.

        Raises NotFound, BadInput, BadFilter, InvalidRequest, FilterTooExpensive, LimitExceeded.
        """
        if isinstance(query, ListTables):
            return self.list_tables(query)
        source, view = self.find_table(query.name, query.source)
        dialect = DIALECTS[query.dialect] if isinstance(query, FilterQuery) else HIVE_4
        expression = view.read_expression(query)  # before the snapshot is open: it may take long
        began_s = time.perf_counter()
        with view.follower.snapshot() as snapshot:
            if snapshot.catalog is not None and snapshot.record(query.name) is None:
                raise NotFound("the table is not in the partition index", table=query.name)
            event_id, state = snapshot.event_id(), snapshot.table_state(query.name)
            result, matched = _answer(query, snapshot, dialect, expression)
        if view.observer is not None:
            seconds = time.perf_counter() - began_s
            view.observer.query_answered(_name_call(query), seconds, snapshot.index.counts, matched)
        currency = self.currency(source, view)
        return {
            **currency,
            "event_id": currency["event_id"] if event_id is None else event_id,
            "table": query.name,
            "state": view.state(query.name),
            "problem": view.quarantined.get(query.name),
            "table_state": view.describe_state(query.name) if state is None else state.describe(),
            **result,
        }


def _answer(
    query: TableQuery, snapshot: PartitionSnapshot, dialect: Dialect, expression: Expression | None
) -> tuple[Answer, int]:
    """Return the part of the answer about the partitions, and how many partitions matched."""
    lookups = snapshot.lookups(query.name, dialect)
    match query:
        case FilterPartitions(names=True) | NamesByValues():
            limit = _limit(query.limit, NAMES_MAX)
            if isinstance(query, NamesByValues):
                selection = lookups.by_values([unquote(each) for each in query.values.split("/")], limit + 1)
            else:
                selection = lookups.by_filter(query.filter, limit + 1)
            names = [name.decode(errors="surrogatepass") for name in selection.names()]
            return _cut("names", names, limit), len(names)
        case FilterPartitions():
            limit = _limit(query.limit, PARTITIONS_MAX)
            partitions = _unpack(snapshot, query.name, lookups.by_filter(query.filter, limit + 1))
            return _cut("partitions", plain(partitions), limit), len(partitions)
        case PartitionsByExpression():
            limit = _limit(query.limit, PARTITIONS_MAX)
            selection, is_exact = lookups.by_expression(expression, limit + 1)
            partitions = _unpack(snapshot, query.name, selection)
            return _cut("partitions", plain(partitions), limit) | {"has_unknown": not is_exact}, len(
                partitions
            )
        case CountPartitions():
            count = lookups.by_filter(query.filter).count()
            return {"count": count}, count
        case ExplainFilter():
            explanation = explain_filter(snapshot.index, query.name, query.filter, dialect)
            return asdict(explanation), explanation.matched_rows


def _unpack(snapshot: PartitionSnapshot, name: str, selection: Selection) -> list[Partition]:
    """Return partitions as the structs that the metastore would send."""
    db, _, table = name.partition(".")
    payloads = [payload for _, payload in selection.payloads()]
    return snapshot.payloads.unpack_all(payloads, db, table, snapshot.budget)


def _name_call(query: TableQuery) -> str:
    """Return the label of a query in metrics: the corresponding call of the metastore."""
    match query:
        case FilterPartitions():
            return "names_by_filter" if query.names else "by_filter"
        case CountPartitions():
            return "count_by_filter"
        case ExplainFilter():
            return "explain"
        case NamesByValues():
            return "names_ps"
        case PartitionsByExpression():
            return "by_expr"


def _decode(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise BadInput("expr: must be base64 for URLs", parameter="expr", value=text[:100]) from None


def _limit(limit: int | None, maximum: int) -> int:
    return maximum if limit is None else min(limit, maximum)


def plain(value: Any) -> Any:
    """Return a struct as plain values for JSON: its fields by Hive's names, without fields that have no
    value.
    """
    if isinstance(value, Struct):
        return {name: plain(one) for name, one in value.set_fields().items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        # The only map whose keys are not text: it maps a list of skewed values to a location.
        return {key if isinstance(key, str) else str(key): plain(one) for key, one in value.items()}
    return value


def _cut(what: str, items: Sequence[Any], limit: int) -> Answer:
    return {what: list(items[:limit]), "truncated": len(items) > limit}
