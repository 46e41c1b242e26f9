"""What people and the daemon run: the stream, and what is done to a table by hand while its stream is stopped.

Each function starts a Spark session of its own and ends it, so each is for a process of its own. Errors are those of Tideline.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from state.errors import TidelineError
from streaming.driver.progress import ignore_progress, started_event, stopped_event


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state.columns.observations import HourCounts
    from streaming.batch.schema_evolution import Proposal
    from streaming.driver.assembly import Assembly
    from streaming.driver.progress import ProgressListener
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
    """Read the stream into its table until it is stopped, or with ``once`` what is there now.

    ``when_ready`` is given the driver as soon as it can be stopped. The last event tells how the run ended.
    """
    from streaming.driver.run import Driver

    try:
        with _session(settings) as parts:
            driver = Driver(parts, progress)
            if when_ready is not None:
                when_ready(driver)
            progress(started_event(settings.name, parts.spark.sparkContext.applicationId))
            reason = driver.run(once=once)
            _tell(parts)
    except TidelineError as error:
        progress(stopped_event(error))
        raise
    progress(stopped_event(reason))


def seal(settings: FlatSettings) -> UpkeepResult:
    """Do all that is due to the table: finish a batch, widen, seal, drop, delete; return what was done."""
    with _session(settings) as parts:
        done = parts.maintenance.run(everything=True)
        _tell(parts)
        return done


def backfill(
    settings: FlatSettings, hours: range | None, *, any_number: bool = False
) -> list[BackfillResult]:
    """Split sealed hours (None: all) once more from the raw table; what is due to the table is done first."""
    from streaming.upkeep.backfill import backfill as filled

    with _session(settings) as parts:
        parts.maintenance.run(everything=True)
        done = filled(parts.sealer.rewriter, parts.stream.lease.hold(), hours, any_number=any_number)
        _tell(parts)
        return done


def plan(settings: FlatSettings) -> Proposal:
    """Return what would become of the table, and why. Changes nothing (the table is created where it is missing).

    May run beside the table's driver, except on Spark's own catalog, which one process alone can open.
    """
    with _session(settings, read_only=True) as parts:
        return _seen(parts)[0]


def _tell(parts: Assembly) -> None:
    """Tell people how the table stands at the end; a batch tells how it stood before."""
    with suppress(TidelineError):  # what was asked for is done, and a page that is a batch old is no failure
        found, state, book, partitions = _seen(parts)
        parts.stream.key_demand.save_snapshot(state.version, found.document(state, book, partitions), ())


def _seen(parts: Assembly) -> tuple[Proposal, TableState, HourCounts, list[HourPartition]]:
    from streaming.batch.schema_evolution import current_hour, propose, read_retained

    stream = parts.stream
    book, last = stream.hour_counts.load(), stream.records.last()
    reached = None if last is None else last.watermark.reached_s
    state, partitions = stream.table.read(), list(stream.table.partitions())
    questions, held = stream.key_demand.read(), read_retained(partitions)
    found = propose(state, questions, book, held, current_hour(book, reached))
    return found, state, book, partitions


@contextmanager
def _session(settings: FlatSettings, *, read_only: bool = False) -> Iterator[Assembly]:
    from streaming.driver.assembly import assemble
    from streaming.driver.local_catalog import build_conf, make_directory
    from streaming.driver.session import start
    from streaming.settings import KafkaSource

    settings.check()
    told = replace(settings.spark, conf={**build_conf(settings), **settings.spark.conf})
    is_kafka = isinstance(settings.source, KafkaSource)
    make_directory(settings)
    spark = start(told, name=f"tideline {settings.name}", kafka=is_kafka)
    try:
        yield assemble(settings, spark, read_only=read_only)
    finally:
        spark.stop()
