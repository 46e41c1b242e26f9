"""Answers about partitions as plain values: what HTTP serves and what the command line prints, from a daemon or its state file.

Every answer tells the event id that it reflects and, where known, the source's newest one, and the state of the table:
``following``, ``loading`` (what is told is from before the load) or ``quarantined``. Answers have a limit, and say where it cut
them off.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from daemon.catalog.answers import only_one, state_of, views_of
from handlers.catalog.index.partition_queries import PartitionQueries
from handlers.structs.struct import Struct
from state.errors import BadInput, NotFound
from state.partitions.filters.dialect import HIVE_2, HIVE_4, Dialect


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from handlers.catalog.following.table_states import LoadProgress
    from handlers.catalog.index.partition_follower import PartitionFollower
    from handlers.catalog.index.partition_queries import QueryObserver
    from state.partitions.index.metastore_calls import ReadExpression


TABLES_MAX: Final = 1_000
PARTITIONS_MAX: Final = 10_000
"""Whole partitions in one answer: some 20 MB."""
NAMES_MAX: Final = 100_000
RANGES_MAX: Final = 1_000
"""Ranges in an explanation; more are only counted."""
DIALECTS: Final = {"hive2": HIVE_2, "hive4": HIVE_4}
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownPartitions:
    """What a catalog knows at one moment."""

    follower: PartitionFollower
    event_id: int | None
    waiting: Mapping[str, str]
    confined: Mapping[str, str]
    under_load: Mapping[str, LoadProgress]
    observer: QueryObserver | None = None
    read: ReadExpression | None = None
    """Reads the expressions of ``by_expr``; None where they are not looked into."""

    def state(self, table: str) -> str:
        """Tell whether answers about a table can be believed."""
        return state_of(table, self.confined, self.waiting)

    def served(self, dialect: Dialect = HIVE_4) -> PartitionQueries:
        """Return the calls in a dialect."""
        return PartitionQueries(self.follower, dialect=dialect, read=self.read, observer=self.observer)


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One source's index; ``known`` gives None until its state is open."""

    source: str
    known: Callable[[], KnownPartitions | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterQuestion:
    """A filter on a table (``db.table``); ``most`` is a number of partitions, None for as many as an answer may have."""

    table: str
    filter: str = ""
    most: int | None = None
    names: bool = False
    """Whether names suffice."""
    dialect: str = "hive4"
    source: str | None = None


class PartitionAnswers:
    """Answers from several sources; safe for any thread, and may wait for a change that is being written."""

    def __init__(self, views: Sequence[PartitionView], newest: Callable[[str], int | None]) -> None:
        self._views = views
        self._newest = newest

    def listing(self, *, source: str | None = None, prefix: str = "", limit: int = TABLES_MAX) -> Answer:
        """Return every indexed table whose name starts with ``prefix``, and those that are loaded for the first time."""
        rows: list[Answer] = []
        total = 0
        for view, known in self._open(source):
            names = sorted({*known.follower.indexed, *known.under_load})
            chosen = [name for name in names if name.startswith(prefix)]
            total += len(chosen)
            with known.follower.lock():
                rows += [_row(view, known, name) for name in chosen[: max(0, limit - len(rows))]]
        return {"sources": self._sources(source), "tables": rows, "total": total}

    def filter(self, asked: FilterQuestion) -> Answer:
        """Return the partitions that match, or their names; raise NotFound, BadFilter, LimitExceeded."""
        view, known = self._holding(asked.table, asked.source)
        served, (db, table) = known.served(_dialect(asked.dialect)), _split(asked.table)
        limit = NAMES_MAX if asked.names else PARTITIONS_MAX
        most = limit if asked.most is None or asked.most < 0 else min(limit, asked.most)
        if asked.names:
            names = served.names_by_filter(db, table, asked.filter, most + 1)
            return {**self._about(view, known, asked.table), **_cut("names", names, most)}
        found = served.by_filter(db, table, asked.filter, most + 1)
        return {
            **self._about(view, known, asked.table),
            **_cut("partitions", [plain(partition) for partition in found], most),
        }

    def count(self, asked: FilterQuestion) -> Answer:
        """Return how many partitions match; raise NotFound, BadFilter, LimitExceeded."""
        view, known = self._holding(asked.table, asked.source)
        count = known.served(_dialect(asked.dialect)).count_by_filter(*_split(asked.table), asked.filter)
        return {**self._about(view, known, asked.table), "count": count}

    def explain(self, asked: FilterQuestion) -> Answer:
        """Return how a filter is answered, with what it cost; raise NotFound, BadFilter, LimitExceeded."""
        view, known = self._holding(asked.table, asked.source)
        found = known.served(_dialect(asked.dialect)).explain(*_split(asked.table), asked.filter)
        told = asdict(found) | {"ranges": found.ranges[:RANGES_MAX], "range_count": len(found.ranges)}
        return {**self._about(view, known, asked.table), **told}

    def names_ps(
        self, table: str, values: Sequence[str], most: int | None = None, *, source: str | None = None
    ) -> Answer:
        """Return the names of partitions with these values in key order, "" for any; raise NotFound, InvalidRequest."""
        view, known = self._holding(table, source)
        limit = NAMES_MAX if most is None or most < 0 else min(NAMES_MAX, most)
        names = known.served().names_ps(*_split(table), values, limit + 1)
        return {**self._about(view, known, table), **_cut("names", names, limit)}

    def by_expr(
        self, table: str, expression: bytes, most: int | None = None, *, source: str | None = None
    ) -> Answer:
        """Return the partitions of an expression as Hive's clients send it; ``has_unknown``: some may not match."""
        view, known = self._holding(table, source)
        limit = PARTITIONS_MAX if most is None or most < 0 else min(PARTITIONS_MAX, most)
        found, has_unknown = known.served().by_expr(*_split(table), expression, limit + 1)
        cut = _cut("partitions", [plain(partition) for partition in found], limit)
        return {**self._about(view, known, table), **cut, "has_unknown": has_unknown}

    def _sources(self, source: str | None) -> dict[str, Answer]:
        return {
            view.source: {
                "event_id": known.event_id,
                "current_event_id": self._newest(view.source),
                "tables": len(known.follower.indexed),
                "partitions": sum(known.follower.indexed.values()),
                "loading": len(known.waiting),
                "quarantined": sorted(known.confined),
            }
            for view, known in self._open(source)
        }

    def _about(self, view: PartitionView, known: KnownPartitions, table: str) -> Answer:
        return {
            "source": view.source,
            "event_id": known.event_id,
            "current_event_id": self._newest(view.source),
            "table": table,
            "state": known.state(table),
            "problem": known.confined.get(table),
        }

    def _open(self, source: str | None) -> list[tuple[PartitionView, KnownPartitions]]:
        """Return what is open; raise NotFound for a source without an index."""
        views = views_of(
            self._views,
            source,
            missing="the source has no partition index",
            nothing="no partition index is configured",
            hint="Add 'partitions' to the source's catalog in the configuration.",
        )
        known = [(view, view.known()) for view in views]
        return [(view, found) for view, found in known if found is not None]

    def _holding(self, table: str, source: str | None) -> tuple[PartitionView, KnownPartitions]:
        known = self._open(source)
        found = [(view, one) for view, one in known if table in one.follower.indexed]
        if not found:
            waits = any(table in one.waiting for _, one in known)
            hint = "It waits to be loaded." if waits else "See 'tideline partitions list' for those that are."
            raise NotFound("the table is not in the partition index", table=table, hint=hint)
        return only_one(found, table=table)


def plain(value: Any) -> Any:
    """Return a struct as JSON can say it: its fields by Hive's names, those without a value left out."""
    if isinstance(value, Struct):
        return {name: plain(one) for name, one in value.set_fields().items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        # The only map without text as keys: a skewed value list to its location.
        return {key if isinstance(key, str) else str(key): plain(one) for key, one in value.items()}
    return value


def _row(view: PartitionView, known: KnownPartitions, name: str) -> Answer:
    begun = known.under_load.get(name)
    indexed = name in known.follower.indexed
    columns = known.follower.index.columns(name) if indexed else ()
    return {
        "source": view.source,
        "table": name,
        "state": known.state(name),
        "problem": known.confined.get(name),
        "columns": [[column.name, column.declared] for column in columns],
        "partitions": known.follower.indexed.get(name),
        "loading": None if begun is None else {"done": begun.done, "total": begun.total},
    }


def _cut(what: str, found: Sequence[Any], most: int) -> Answer:
    return {what: list(found[:most]), "truncated": len(found) > most}


def _split(table: str) -> tuple[str, str]:
    db, _, name = table.partition(".")
    return db, name


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise BadInput("no such dialect", dialect=name, known=sorted(DIALECTS))
    return DIALECTS[name]
