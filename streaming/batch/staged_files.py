"""Stages the files of a batch in one pass over its rows, then publishes them.

Staging splits the rows, routes them and writes them to the staging directory, one folder per destination. A
batch is a single write action, because every action reads the source again. The staging directory is in the
table's own directory, hidden from readers and on the same file system, so that publishing is a rename. Its
name contains the attempt. Staging removes the directories of earlier attempts, including files that tasks on
executors wrote after their driver died.

A dead letter keeps its raw text in ``_rescued``, whether or not it could be split.

Publishing moves the files to their hours and adds the batch's counts to the hours' parameters. Every step can
be repeated, and is repeated after a crash:

1. move each file to its final location; a move done before is recognized;
2. add the batch's counts to each hour, unless the hour's mark names this batch already;
3. remove the staging directory.

Partitions exist before files are moved, so no file is moved to a directory that readers do not see. The table
already has the file's columns, because they were added when the batch was planned. So no reader sees a file
that is newer than the table.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from handlers.failpoints import failpoint
from streaming.batch.routing import TO, WHEN, parse_destination, route_rows
from streaming.split.file_columns import write_files
from streaming.split.parse_schema import quote
from streaming.split.split_plan import MALFORMED, SLOTS
from streaming.split.splitter import SHORT_LIVED_OPTIONS, replace_rescued, row_counts
from streaming.table.hours import parse_version
from streaming.table.parameters import BATCHES, RAW_BYTES, ROWS, SEALED, TOUCHED, VALUES
from streaming.table.value_counts import add_counts, format_counts, parse_counts


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from streaming.batch.records import BatchPlan, HourDelta, StagedBatch
    from streaming.settings import FlatSettings
    from streaming.split.pushdown_guard import PushdownGuard
    from streaming.storage.port import Storage
    from streaming.table.flat_table import FlatTable, HourPartition


_NO_MARKER: Final = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
"""No reader uses the file ``_SUCCESS``; the staged record shows that the files are complete."""
PARTS_MAX: Final = 256
"""Source partitions with their own aggregate for the latest event; further ones share an aggregate by
remainder."""
_IS_HOUR: Final = f"{quote(TO)} RLIKE '^[0-9]'"


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The content of the staging directory."""

    directory: str
    hours: Mapping[int, Sequence[str]]
    """Files by hour."""
    dead_letters: Mapping[str, Sequence[str]]
    """Files by the reason why their rows are dead letters."""
    latest_s: Mapping[int, int | None]
    """The latest event of each source partition."""
    counts: Mapping[str, int]
    """Counts of the pass: ``rows``, ``bytes`` of JSON, ``malformed``, ``trailing`` and ``rescued`` rows."""


class Stager:
    """Writes batches of one table to its staging directory."""

    def __init__(self, settings: FlatSettings, storage: Storage, query: str, guard: PushdownGuard) -> None:
        self._settings = settings
        self._storage = storage
        self._query = query
        self._guard = guard
        self._root = f"{settings.location.rstrip('/')}/.staging"

    def stage(self, raw: DataFrame, plan: BatchPlan, parts: Sequence[int]) -> StagedFiles:
        """Write the rows of ``raw`` as planned; ``parts`` are the numbers of the source's partitions."""
        from pyspark.sql import Observation, functions

        self._clear()
        directory = f"{self._root}/{self._query}-{plan.batch}-{secrets.token_hex(4)}"
        observation = Observation()
        rows = route_rows(self._settings, plan, raw).observe(observation, *_build_aggregates(parts))
        dead_letter = replace_rescued(plan.layout, "value")
        rows = rows.withColumn(
            SLOTS, functions.expr(f"CASE WHEN {_IS_HOUR} THEN {SLOTS} ELSE {dead_letter} END")
        )
        options = {"compression": self._settings.compression, **SHORT_LIVED_OPTIONS, **_NO_MARKER}
        write_files(rows, plan.layout, directory, options=options, textual=plan.textual, by=[TO])
        failpoint("flat.written")
        observed = observation.get
        self._mark_hours(directory, plan.textual)
        return self._list_staged(directory, observed, parts)

    def _mark_hours(self, directory: str, textual: frozenset[int]) -> None:
        if not textual:
            return
        for folder in self._storage.list(directory):
            if (
                folder.name.startswith(f"{TO}=")
                and parse_destination(folder.name.partition("=")[2]) is not None
            ):
                self._guard.mark_directory(f"{directory}/{folder.name}", textual)

    def _list_staged(self, directory: str, observed: Mapping[str, Any], parts: Sequence[int]) -> StagedFiles:
        hours: dict[int, list[str]] = {}
        dead_letters: dict[str, list[str]] = {}
        for folder in self._storage.list(directory):
            if not folder.is_directory or not folder.name.startswith(f"{TO}="):
                continue
            to = folder.name.partition("=")[2]
            hour = parse_destination(to)
            files = [
                f"{directory}/{folder.name}/{name}" for name in self._files(f"{directory}/{folder.name}")
            ]
            if hour is None:
                dead_letters[to] = files
            else:
                hours[hour] = files
        latest = {part: observed.get(f"p{part % PARTS_MAX}") for part in parts}
        counted = {
            name: int(observed.get(name) or 0)
            for name in ("rows", "bytes", "malformed", "trailing", "rescued")
        }
        return StagedFiles(directory, hours, dead_letters, latest, counted)

    def _files(self, directory: str) -> list[str]:
        return [entry.name for entry in self._storage.list(directory) if entry.name.endswith(".orc")]

    def _clear(self) -> None:
        """Remove earlier staging directories of this stream: when a batch is staged, all earlier batches are
        published.
        """
        for entry in self._storage.list(self._root):
            if entry.name.startswith(f"{self._query}-"):
                self._storage.remove(f"{self._root}/{entry.name}")


class BatchPublisher:
    """Publishes the batches of one stream; ``query`` is the id of its checkpoint."""

    def __init__(self, table: FlatTable, storage: Storage, query: str) -> None:
        self._table = table
        self._storage = storage
        self._query = query

    def publish(self, staged: StagedBatch) -> StagedBatch:
        """Publish a staged batch, or complete an interrupted attempt."""
        # 1. Files: a repeated move changes nothing.
        for move in staged.moves:
            self._storage.move(move.source, move.target)
            failpoint("flat.moved")
        # 2. Counts: the mark in the hour's parameters shows whether the counts include this batch.
        for hour, counts in sorted(staged.hours.items()):
            self._add_counts(hour, counts, staged)
            failpoint("flat.counted")
        # 3. All files have moved; only empty directories remain.
        self._storage.remove(staged.directory)
        failpoint("flat.published")
        return staged

    def hour(self, hour: int) -> HourPartition:
        """Return the partition of ``hour``. Adds a missing one with a directory that no earlier partition
        used.
        """
        if partitions := self._table.partitions([hour]):
            return partitions[0]
        state = self._table.read()
        entries = self._storage.list(str(state.columns.directory(state.location, hour)))
        used = [
            int(entry.name[1:]) for entry in entries if entry.name[:1] == "v" and entry.name[1:].isdecimal()
        ]
        return self._table.add_hour(hour, version=max(used, default=0) + 1)

    def _add_counts(self, hour: int, counts: HourDelta, staged: StagedBatch) -> None:
        partition = self.hour(hour)
        assert parse_version(partition.location) is not None, partition
        parameters = partition.parameters
        mark = f"{self._query}:{staged.batch}"
        if parameters.get(BATCHES) == mark:
            return
        self._table.set_hour_parameters(
            hour,
            {
                BATCHES: mark,
                ROWS: str(int(parameters.get(ROWS, 0)) + counts.rows),
                RAW_BYTES: str(int(parameters.get(RAW_BYTES, 0)) + counts.bytes),
                VALUES: format_counts(add_counts(parse_counts(parameters.get(VALUES, "")), counts.nonnull)),
                SEALED: None,
                TOUCHED: str(staged.watermark.reached_s or 0),
            },
        )


def _build_aggregates(parts: Sequence[int]) -> list[Column]:
    from pyspark.sql import functions

    counted = f"CASE WHEN {_IS_HOUR} AND NOT {MALFORMED} THEN {WHEN} END"
    buckets = sorted({part % PARTS_MAX for part in parts})
    latest = [
        functions.expr(f"max(CASE WHEN part % {PARTS_MAX} = {bucket} THEN {counted} END)").alias(f"p{bucket}")
        for bucket in buckets
    ]
    return [*row_counts(), functions.expr("sum(size)").alias("bytes"), *latest]
