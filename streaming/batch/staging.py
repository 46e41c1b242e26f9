"""One pass over a batch: rows are split, routed and written to the staging directory, one folder per destination.

A batch is a single write action, because every action reads the source again. The staging directory lies in the table's own
directory, hidden from readers and on the same file system, so that publishing is a rename. Its name holds the attempt: what an
earlier attempt left behind is in another directory and is removed, also what tasks of a driver that died wrote after that, which
on executors may go on for a while.

Whatever goes to the dead letters keeps its raw text in ``_rescued``, whether or not it could be split.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from handlers.failpoints import failpoint
from state.columns.slots import RESCUED
from streaming.batch.routing import destination, event_seconds, parse_destination
from streaming.split.file_columns import slot_columns
from streaming.split.parse_schema import quote
from streaming.split.splitter import MALFORMED, SHORT_LIVED_OPTIONS, row_counts, split


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.batch.records import BatchPlan
    from streaming.settings import FlatSettings
    from streaming.table.storage import Storage


TO: Final = "to"
WHEN: Final = "_tideline_when"
PARTS_MAX: Final = 256
"""Partitions of the source whose latest event is told one by one; more share a place, by remainder."""
_IS_HOUR: Final = f"{quote(TO)} RLIKE '^[0-9]'"
_KEPT: Final = ("value", "size", "arrival", "part")


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """What lies in the staging directory."""

    directory: str
    hours: Mapping[int, Sequence[str]]
    """Files by hour."""
    letters: Mapping[str, Sequence[str]]
    """Files by the reason why they are dead letters."""
    latest_s: Mapping[int, int | None]
    """The latest event of each partition of the source."""
    seen: Mapping[str, int]
    """What was counted on the way: ``rows``, ``bytes`` of JSON, ``malformed`` and ``rescued`` rows."""


def route_rows(settings: FlatSettings, plan: BatchPlan, raw: Any) -> Any:
    """Return the split rows of ``raw`` (``streaming.source.raw_events``) with the columns ``to``, ``_tideline_when`` and all slots."""
    from pyspark.sql import functions

    rows = split(
        raw,
        plan.layout,
        keep=_KEPT,
        texts={WHEN: settings.event_time.key},
        numeric_strings=settings.rules.numeric_strings,
    )
    rows = rows.withColumn(WHEN, event_seconds(functions.col(WHEN), settings.event_time))
    to = destination(
        settings,
        plan,
        seconds=functions.col(WHEN),
        arrival=functions.col("arrival"),
        size=functions.col("size"),
        malformed=functions.col(MALFORMED),
    )
    return rows.withColumn(TO, to)


class Stager:
    """Writes batches of one table to its staging directory."""

    def __init__(self, settings: FlatSettings, storage: Storage, query: str) -> None:
        self._settings = settings
        self._storage = storage
        self._query = query
        self._root = f"{settings.location.rstrip('/')}/.staging"

    def stage(self, raw: Any, plan: BatchPlan, parts: Sequence[int]) -> StagedFiles:
        """Write the rows of ``raw`` as planned; ``parts`` are the source's partitions."""
        from pyspark.sql import Observation, functions

        self._clear()
        directory = f"{self._root}/{self._query}-{plan.batch}-{secrets.token_hex(4)}"
        observation = Observation()
        rows = route_rows(self._settings, plan, raw).observe(observation, *_aggregates(parts))
        rows = rows.withColumn(RESCUED, functions.expr(f"CASE WHEN {_IS_HOUR} THEN {RESCUED} ELSE value END"))
        writer = (
            rows.selectExpr(*slot_columns(plan.layout, plan.textual), quote(TO))
            .write.mode("overwrite")
            .partitionBy(TO)
        )
        writer.option("compression", self._settings.compression).options(**SHORT_LIVED_OPTIONS).orc(directory)
        failpoint("flat.written")
        seen = observation.get
        return self._written(directory, seen, parts)

    def _written(self, directory: str, seen: Mapping[str, Any], parts: Sequence[int]) -> StagedFiles:
        hours: dict[int, list[str]] = {}
        letters: dict[str, list[str]] = {}
        for folder in self._storage.list(directory):
            if not folder.is_directory or not folder.name.startswith(f"{TO}="):
                continue
            to = folder.name.partition("=")[2]
            hour = parse_destination(to)
            files = [
                f"{directory}/{folder.name}/{name}" for name in self._files(f"{directory}/{folder.name}")
            ]
            if hour is None:
                letters[to] = files
            else:
                hours[hour] = files
        latest = {part: seen.get(f"p{part % PARTS_MAX}") for part in parts}
        counted = {name: int(seen.get(name) or 0) for name in ("rows", "bytes", "malformed", "rescued")}
        return StagedFiles(directory, hours, letters, latest, counted)

    def _files(self, directory: str) -> list[str]:
        return [found.name for found in self._storage.list(directory) if found.name.endswith(".orc")]

    def _clear(self) -> None:
        """Remove what the stream has left: its earlier batches are all published when one is staged."""
        for found in self._storage.list(self._root):
            if found.name.startswith(f"{self._query}-"):
                self._storage.remove(f"{self._root}/{found.name}")


def _aggregates(parts: Sequence[int]) -> list[Any]:
    from pyspark.sql import functions

    counted = f"CASE WHEN {_IS_HOUR} AND NOT {MALFORMED} THEN {WHEN} END"
    places = sorted({part % PARTS_MAX for part in parts})
    latest = [
        functions.expr(f"max(CASE WHEN part % {PARTS_MAX} = {place} THEN {counted} END)").alias(f"p{place}")
        for place in places
    ]
    return [*row_counts(), functions.expr("sum(size)").alias("bytes"), *latest]
