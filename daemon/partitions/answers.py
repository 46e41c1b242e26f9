"""Answers about partitions as plain values: what HTTP serves and what the command line prints, from a daemon or its state file.

While a table is ``loading``, its answers reflect the state before the load. Answers have a limit, and say where they were cut off.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from daemon.catalog.answers import CatalogAnswers, Known
from daemon.partitions.queries import (
    NAMES_MAX,
    PARTITIONS_MAX,
    CountPartitions,
    ExplainFilter,
    FilterPartitions,
    FilterQuery,
    ListTables,
    NamesByValues,
    PartitionsByExpression,
)
from handlers.catalog.index.partition_queries import PartitionQueries
from handlers.structs.struct import Struct
from state.errors import BadInput
from state.partitions.filters.dialect import HIVE_2, HIVE_4, Dialect


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from daemon.catalog.queries import Answer
    from daemon.partitions.queries import PartitionQuery, TableQuery
    from handlers.catalog.following.states.table_state import LoadProgress
    from handlers.catalog.index.partition_follower import PartitionFollower
    from handlers.catalog.index.partition_queries import QueryObserver
    from state.partitions.index.metastore_calls import ReadExpression


DIALECTS: Final = {"hive2": HIVE_2, "hive4": HIVE_4}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartitions(Known):
    """The partition index of one source at one moment."""

    follower: PartitionFollower
    under_load: Mapping[str, LoadProgress]
    observer: QueryObserver | None = None
    read: ReadExpression | None = None
    """Reads the expressions of ``PartitionsByExpression``; None where they are not read."""

    def tables(self) -> Collection[str]:
        """Return the tables in the index."""
        return self.follower.indexed

    def listed_tables(self) -> Sequence[str]:
        """Return the tables in the index, and those that are loaded for the first time."""
        return sorted({*self.follower.indexed, *self.under_load})

    def rows(self, source: str, tables: Sequence[str]) -> list[Answer]:
        """Return each table with its columns and the progress of its load."""
        return [{"source": source, **self._row(table)} for table in tables]

    def counts(self) -> Answer:
        """Return how many partitions there are."""
        return {"partitions": sum(self.follower.indexed.values())}

    def queries(self, dialect: Dialect = HIVE_4) -> PartitionQueries:
        """Return the metastore's queries in a dialect."""
        return PartitionQueries(self.follower, dialect=dialect, read=self.read, observer=self.observer)

    def _row(self, table: str) -> Answer:
        load = self.under_load.get(table)
        indexed = table in self.follower.indexed
        known = self.follower.index.known_tables().get(table) if indexed else None
        columns = () if known is None else known.key_schema.columns
        return {
            "table": table,
            "state": self.state(table),
            "problem": self.quarantined.get(table),
            "table_state": self.describe_state(table),
            "columns": [[column.name, column.declared] for column in columns],
            "partitions": self.follower.indexed.get(table),
            "loading": None if load is None else {"done": load.done, "total": load.total},
        }


class PartitionAnswers(CatalogAnswers[KnownPartitions]):
    """Answers from several sources; for any thread. An answer and its event id come from one snapshot."""

    no_source = "the source has no partition index"
    no_branch = "no partition index is configured"
    source_hint = "Add 'partitions' to the source's catalog in the configuration."
    no_table = "the table is not in the partition index"
    table_hint = "Run 'tideline partitions list' to list the indexed tables."
    subject = "table"

    def answer(self, query: PartitionQuery) -> Answer:
        """Return the answer; raise NotFound, BadInput, BadFilter, InvalidRequest, FilterTooExpensive, LimitExceeded."""
        if isinstance(query, ListTables):
            return self.list_tables(query)
        source, known = self.find_table(query.name, query.source)
        queries = known.queries(_dialect(query.dialect) if isinstance(query, FilterQuery) else HIVE_4)
        result = _result(query, queries)
        currency = self.currency(source, known)
        described = (
            known.describe_state(query.name)
            if queries.table_state is None
            else queries.table_state.describe()
        )
        return {
            **currency,
            "event_id": currency["event_id"] if queries.event_id is None else queries.event_id,
            "table": query.name,
            "state": known.state(query.name),
            "problem": known.quarantined.get(query.name),
            "table_state": described,
            **result,
        }


def _result(query: TableQuery, queries: PartitionQueries) -> Answer:
    db, _, table = query.name.partition(".")
    match query:
        case FilterPartitions(names=True):
            limit = _limit(query.limit, NAMES_MAX)
            return _cut("names", queries.names_by_filter(db, table, query.filter, limit + 1), limit)
        case FilterPartitions():
            limit = _limit(query.limit, PARTITIONS_MAX)
            return _cut("partitions", plain(queries.by_filter(db, table, query.filter, limit + 1)), limit)
        case CountPartitions():
            return {"count": queries.count_by_filter(db, table, query.filter)}
        case ExplainFilter():
            return asdict(queries.explain(db, table, query.filter))
        case NamesByValues():
            limit = _limit(query.limit, NAMES_MAX)
            return _cut("names", queries.names_ps(db, table, query.values, limit + 1), limit)
        case PartitionsByExpression():
            limit = _limit(query.limit, PARTITIONS_MAX)
            found, has_unknown = queries.by_expr(db, table, query.expression, limit + 1)
            return _cut("partitions", plain(found), limit) | {"has_unknown": has_unknown}


def _limit(limit: int | None, maximum: int) -> int:
    return maximum if limit is None or limit < 0 else min(limit, maximum)


def plain(value: Any) -> Any:
    """Return a struct as JSON has it: its fields by Hive's names, without those that have no value."""
    if isinstance(value, Struct):
        return {name: plain(one) for name, one in value.set_fields().items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        # The only map without text as keys: a skewed value list to its location.
        return {key if isinstance(key, str) else str(key): plain(one) for key, one in value.items()}
    return value


def _cut(what: str, found: Sequence[Any], limit: int) -> Answer:
    return {what: list(found[:limit]), "truncated": len(found) > limit}


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput("unknown dialect", dialect=name, known=sorted(DIALECTS))
    return DIALECTS[name]
