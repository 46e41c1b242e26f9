"""Commands on a flat table: the stream itself, and manual operations while its stream is stopped.

Each function starts a Spark session and ends it, so each needs its own process. Errors are Tideline's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from state.columns.counts.observations import HourCounts
from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from state.errors import NotFound, TidelineError
from streaming.batch.schema_evolution import Proposal
from streaming.driver.assembly import Assembly
from streaming.driver.progress import (
    ProgressListener,
    ignore_progress,
    report_rewrites,
    started_event,
    stopped_event,
)
from streaming.driver.run import Driver
from streaming.settings import FlatSettings
from streaming.table.flat_table import HourPartition, TableState
from streaming.upkeep.backfill import BackfillResult
from streaming.upkeep.maintenance import UpkeepResult


def run(
    settings: FlatSettings,
    progress: ProgressListener = ignore_progress,
    *,
    once: bool = False,
    when_ready: Callable[[Driver], None] | None = None,
) -> None:
    """Read the stream into its table until stopped, or with ``once`` until the source is exhausted.

    ``when_ready`` receives the driver as soon as ``stop`` works. The last event reports how the run ended.
    """
    from streaming.driver.executor_pods import PodLabel, start_removing
    from streaming.driver.run import Driver

    try:
        with _session(settings, progress) as parts:
            start_removing(parts.spark, PodLabel.of_table(settings))
            driver = Driver(parts, progress)
            if when_ready is not None:
                when_ready(driver)
            progress(started_event(settings.name, parts.spark.sparkContext.applicationId))
            reason = driver.run(once=once)
            _save_snapshot(parts)
    except TidelineError as error:
        progress(stopped_event(error))
        raise
    progress(stopped_event(reason))


def prepare() -> Path:
    """Write the class archive, which makes drivers of this installation start faster; return its path.

    Runs a driver for a dummy table in a temporary directory. Raises ConfigError and StateLocked.
    """
    from streaming.driver.assembly import lock_path
    from streaming.driver.class_archive import NAME, build_training, replace_archive
    from streaming.driver.session import end_jvm

    with replace_archive() as (path, beside), TemporaryDirectory(prefix="tideline-prepare-") as directory:
        settings = build_training(Path(directory), beside / NAME)
        run(settings, once=True)
        end_jvm()
        lock_path(settings).unlink()
    return path


def seal(settings: FlatSettings, progress: ProgressListener = ignore_progress) -> UpkeepResult:
    """Do all due maintenance: finish a batch, promote, seal, drop and delete. Return the outcome.

    ``progress`` receives an event for every rewritten hour.
    """
    with _session(settings, progress) as parts:
        result = parts.maintenance.run(everything=True)
        _save_snapshot(parts)
        return result


def backfill(
    settings: FlatSettings,
    hours: range | None,
    progress: ProgressListener = ignore_progress,
    *,
    any_number: bool = False,
    key: KeyPath | None = None,
    match: KeyPath | None = None,
) -> list[BackfillResult]:
    """Split sealed hours (None: all) again from the raw table, after all maintenance that is due.

    With ``key``, splits only hours without a value of this key; with ``match`` as well, fills only the column
    of this key. ``progress`` receives an event for every rewritten hour.
    """
    from streaming.upkeep.backfill import backfill as filled

    with _session(settings, progress) as parts:
        parts.maintenance.run(everything=True)
        state, rewriter = parts.stream.lease.hold(), parts.sealer.rewriter
        results = filled(rewriter, state, hours, any_number=any_number, key=key, match=match)
        _save_snapshot(parts)
        return results


def narrow(
    settings: FlatSettings,
    key: KeyPath,
    target: ColumnType | None = None,
    progress: ProgressListener = ignore_progress,
) -> ColumnType:
    """Make the STRING column of ``key`` numeric, by default of the narrowest type that holds all values.

    Returns its type. If this is interrupted, the driver completes it between its batches. Raises
    InvalidRequest if a value does not fit.
    """
    from streaming.upkeep.type_changes import begin_narrowing

    with _session(settings, progress) as parts:
        parts.maintenance.run(everything=True)
        begin_narrowing(parts.sealer.rewriter, parts.stream.lease.hold(), key, target)
        parts.maintenance.run(everything=True)
        _save_snapshot(parts)
        return parts.stream.table.read().layout.by_key[key].type


def plan(settings: FlatSettings) -> Proposal:
    """Return the proposed changes of the table with their reasons. Changes nothing and creates nothing.

    May run in parallel with the table's driver, except with Spark's own catalog, which only one process can
    open. Raises StateLocked then.
    """
    from streaming.driver.local_catalog import is_missing

    settings.check()
    if is_missing(settings):
        return _propose_first(settings)
    try:
        with _session(settings, read_only=True) as parts:
            return _propose(parts)[0]
    except NotFound as missing:
        if missing.context.get("table") != settings.name:
            raise
        return _propose_first(settings)


def _propose_first(settings: FlatSettings) -> Proposal:
    """Return the proposal for a table that does not exist yet: every key waits for its first value."""
    from handlers.files.paths import parse_location
    from state.columns.changes import RetainedValues
    from state.columns.counts.observations import HourCounts
    from state.columns.slots import Layout
    from streaming.batch.key_demand import open_key_demand
    from streaming.batch.schema_evolution import propose
    from streaming.table.flat_table import TableState
    from streaming.table.hours import HourColumns

    columns, location = HourColumns(settings.partition_columns), parse_location(settings.location)
    state = TableState(Layout.new(), {}, columns, location)
    return propose(state, open_key_demand(settings).read(), HourCounts(), RetainedValues(), 0)


def _save_snapshot(parts: Assembly) -> None:
    """Save a snapshot of the table's final state, because a batch saves only the state before it."""
    with suppress(TidelineError):  # the command itself succeeded; an older snapshot is acceptable
        proposal, state, counts, partitions = _propose(parts)
        parts.stream.key_demand.save_snapshot(state.version, proposal.document(state, counts, partitions), ())


def _propose(parts: Assembly) -> tuple[Proposal, TableState, HourCounts, list[HourPartition]]:
    from streaming.batch.schema_evolution import current_hour, propose, read_retained

    stream = parts.stream
    counts, last = stream.hour_counts.load(), stream.records.last()
    reached = None if last is None else last.watermark.reached_s
    state, partitions = stream.table.read(), list(stream.table.partitions())
    requested, retained = stream.key_demand.read(), read_retained(partitions)
    proposal = propose(state, requested, counts, retained, current_hour(counts, reached))
    return proposal, state, counts, partitions


@contextmanager
def _session(
    settings: FlatSettings, progress: ProgressListener = ignore_progress, *, read_only: bool = False
) -> Iterator[Assembly]:
    from streaming.driver.assembly import assemble, lock
    from streaming.driver.executor_pods import PodLabel, label_pods, remove_own_pods
    from streaming.driver.local_catalog import build_conf, is_used, make_directory, open_ahead
    from streaming.driver.session import start
    from streaming.jvm_errors import jvm_errors
    from streaming.settings import KafkaSource

    settings.check()
    if not read_only or is_used(settings):
        lock(settings)  # before Spark starts, which takes seconds
    labelled = label_pods(settings.spark, PodLabel.of_table(settings))
    spark_settings = replace(labelled, conf={**build_conf(settings), **labelled.conf})
    is_kafka = isinstance(settings.source, KafkaSource)
    if not read_only:
        make_directory(settings)
    ahead = open_ahead(settings, spark_settings.conf)
    spark = start(spark_settings, name=f"tideline {settings.name}", kafka=is_kafka, beside=ahead)
    with remove_own_pods(spark), jvm_errors(spark):
        yield assemble(settings, spark, read_only=read_only, on_rewrite=report_rewrites(progress))
