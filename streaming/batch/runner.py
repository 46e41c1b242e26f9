"""Runs one micro-batch exactly once, although Spark may call it several times with the same rows.

The batch advances through four durable states, each recorded before the next begins
(``streaming.batch.records``). After a crash, the next call resumes from the recorded state:

1. *new*: evolve the table's columns, then record the plan;
2. *planned*: split and stage the rows as planned (if the table's columns changed in the meantime, the plan
   adopts them), then record the staged files. If numbers have outgrown their columns, the columns are
   widened, the plan adopts them, and the rows are staged once more, so that no reader misses these numbers;
3. *staged*: move the files to their final locations; no row is read again;
4. *published*: update the hour counts and mark the batch done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from state.columns.counts.observations import HourCounts
from state.errors import Inconsistent
from streaming.batch.observations import merge_counts, observe_batch, observe_sample
from streaming.batch.records import BatchPlan, HourDelta, Move, StagedBatch, have_same_columns
from streaming.batch.routing import Reason
from streaming.batch.schema_evolution import (
    announce_promotions,
    current_hour,
    evolve,
    find_keys_without_column,
    propose,
    propose_proven,
    read_retained,
    select_widening,
)
from streaming.batch.watermark import Watermark
from streaming.split.file_columns import textual_slots


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from state.columns.counts.observations import Observations
    from streaming.batch.key_demand import KeyDemand, RequestedKeys
    from streaming.batch.observations import FileCounts
    from streaming.batch.records import BatchRecords, HourCountsFile
    from streaming.batch.sampling import Sampler
    from streaming.batch.staged_files import BatchPublisher, StagedFiles, Stager
    from streaming.settings import FlatSettings
    from streaming.table.current_files import CurrentTableFile
    from streaming.table.flat_table import TableState
    from streaming.table.lease import WriterLease
    from streaming.table.partition_cache import CachedTable


@dataclass(frozen=True, slots=True)
class BatchOrigin:
    """The origin of a batch's rows as Spark recorded it: a line of offsets, and the source's partitions."""

    line: str
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """The parts that process the stream of one table."""

    settings: FlatSettings
    query: str
    """A short id of the checkpoint, contained in every file name."""
    table: CachedTable
    lease: WriterLease
    records: BatchRecords
    hour_counts: HourCountsFile
    stager: Stager
    publisher: BatchPublisher
    current: CurrentTableFile
    key_demand: KeyDemand
    sampler: Sampler
    clock: Callable[[], float]


class BatchRunner:
    """Runs the batches of a stream, one at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def run(self, raw: DataFrame, batch: int, origin: BatchOrigin) -> StagedBatch:
        """Write the rows of ``raw`` to the table and return the completed batch.

        Raises Inconsistent if the batch was staged from other rows, StateLocked or Conflict if another writer
        owns the table, and Transient if the metastore or the files are unavailable. Calling it again then
        resumes the batch.
        """
        staged = self._stream.records.staged(batch)
        if staged is None:
            staged = self._stage(raw, batch, origin)
        elif staged.origin != origin.line:
            raise Inconsistent(
                "Spark repeats a batch with other rows than those in the table",
                batch=batch,
                hint="Spark's checkpoint was modified manually. Restore it, or start with a new checkpoint.",
            )
        return self.finish(staged)

    def finish(self, staged: StagedBatch) -> StagedBatch:
        """Complete a staged batch: publish its files, add its observations and mark it done."""
        if staged.done:
            return staged
        stream = self._stream
        # 3. staged: write the record for readers without a metastore, then move the files.
        stream.current.write(stream.lease.hold())
        published = stream.publisher.publish(staged)
        # 4. published: the hour counts name the last batch that they include, so each batch counts once.
        hour_counts = stream.hour_counts.load()
        counts = hour_counts.with_batch(published.batch, published.observed.hours)
        if counts is not hour_counts:
            stream.hour_counts.save(counts, current_hour(counts, published.watermark.reached_s))
        failpoint("flat.noted")
        return stream.records.finish(published)

    def _stage(self, raw: DataFrame, batch: int, origin: BatchOrigin) -> StagedBatch:
        stream = self._stream
        state = stream.lease.hold()
        # 1. new: record the plan before reading a row.
        plan = self._load_or_make_plan(raw, batch, state)
        failpoint("flat.planned")
        # 2. planned: the staged record fixes the result of the batch.
        staged = self._describe_staged(plan, origin, stream.stager.stage(raw, plan, origin.parts))
        if wider := self._widen_plan(plan, staged):
            staged = self._describe_staged(wider, origin, stream.stager.stage(raw, wider, origin.parts))
        failpoint("flat.staged")
        stream.records.save_staged(staged)
        failpoint("flat.decided")
        return staged

    def _load_or_make_plan(self, raw: DataFrame, batch: int, state: TableState) -> BatchPlan:
        stream = self._stream
        plan = stream.records.plan(batch)
        if plan is None:
            plan = self._make_plan(raw, batch, state)
        elif not have_same_columns(plan.layout, state.layout) or plan.textual != textual_slots(state):
            plan = replace(plan, layout=state.layout, textual=textual_slots(state))
        stream.records.save_plan(plan)
        return plan

    def _make_plan(self, raw: DataFrame, batch: int, state: TableState) -> BatchPlan:
        stream = self._stream
        last = stream.records.last()
        watermark = Watermark() if last is None else last.watermark
        draft = BatchPlan(batch, state.layout, watermark, int(stream.clock()))
        requested = stream.key_demand.read()
        sample = self._observe_sample(raw, draft, requested, state)
        counts = stream.hour_counts.load().join(HourCounts(sample))
        partitions = stream.table.partitions()
        hour = current_hour(counts, watermark.reached_s)
        proposal = propose_proven(
            lambda retained: propose(state, requested, counts, retained, hour), partitions, stream.sampler
        )
        altered = evolve(stream.table, state, proposal.evolution)
        altered = announce_promotions(
            stream.table, altered, proposal.evolution, requested.rules, int(stream.clock())
        )
        document = proposal.document(altered, counts, partitions)
        stream.key_demand.save_snapshot(
            altered.version, document, proposal.changes if altered is not state else ()
        )
        live = set(altered.layout.by_key)
        new_keys = {hour: observations.without(live) for hour, observations in sample.items()}
        return replace(
            draft, layout=altered.layout, textual=textual_slots(altered), sampled=HourCounts(new_keys)
        )

    def _widen_plan(self, plan: BatchPlan, staged: StagedBatch) -> BatchPlan | None:
        """Widen the columns that are too narrow for numbers in the staged rows.

        Returns the changed plan, None if there are none.
        """
        stream = self._stream
        if not staged.counts["misfits"]:
            return None
        state = stream.lease.hold()
        counts = stream.hour_counts.load().join(staged.observed)
        partitions = stream.table.partitions()
        hour = current_hour(counts, plan.watermark.reached_s)
        requested = stream.key_demand.read()
        proposal = propose(state, requested, counts, read_retained(partitions), hour)
        widening = select_widening(proposal, state.layout)
        if widening is None:
            return None
        altered = evolve(stream.table, state, widening.evolution)
        document = widening.document(altered, counts, partitions)
        stream.key_demand.save_snapshot(altered.version, document, widening.changes)
        wider = replace(plan, layout=altered.layout, textual=textual_slots(altered))
        stream.records.save_plan(wider)
        return wider

    def _observe_sample(
        self, raw: DataFrame, draft: BatchPlan, requested: RequestedKeys, state: TableState
    ) -> dict[int, Observations]:
        keys = find_keys_without_column(requested, state)
        if not keys:
            return {}
        return observe_sample(self._stream.sampler.sample(raw, draft), requested.rules, keys)

    def _describe_staged(self, plan: BatchPlan, origin: BatchOrigin, staged: StagedFiles) -> StagedBatch:
        stream = self._stream
        sampler = stream.sampler
        counts = {hour: merge_counts(sampler.read_counts(files)) for hour, files in staged.hours.items()}
        dead_letters = {reason: list(files) for reason, files in staged.dead_letters.items()}
        totals = {
            reason: merge_counts(sampler.read_counts(files)).rows for reason, files in dead_letters.items()
        }
        _check_complete(staged, sum(each.rows for each in counts.values()) + sum(totals.values()))
        misfits = {
            hour: sampler.sample_misfits(files, counts[hour].nonnull[0], plan.layout)
            for hour, files in staged.hours.items()
        }
        if staged.counts["malformed"] and staged.hours:
            files = [path for listed in staged.hours.values() for path in listed]
            dead_letters[Reason.MALFORMED.value] = sampler.copy_malformed(
                files, f"{staged.directory}/malformed", plan.layout
            )
        rules = stream.settings.rules
        observed = {
            hour: observe_batch(plan.layout, each, misfits[hour], rules) for hour, each in counts.items()
        }
        return StagedBatch(
            batch=plan.batch,
            origin=origin.line,
            directory=staged.directory,
            moves=self._plan_moves(plan.batch, staged, dead_letters),
            hours={hour: _build_delta(each, staged) for hour, each in counts.items()},
            counts={**totals, **staged.counts, "misfits": _sum_misfits(observed)},
            watermark=plan.watermark.advance(staged.latest_s, plan.now_s, stream.settings.event_time.idle_s),
            observed=HourCounts(observed).join(plan.sampled),
        )

    def _plan_moves(
        self, batch: int, staged: StagedFiles, dead_letters: Mapping[str, list[str]]
    ) -> tuple[Move, ...]:
        stream = self._stream
        targets = {str(stream.publisher.hour(hour).location): files for hour, files in staged.hours.items()}
        root = stream.settings.dead_letter_directory
        targets |= {f"{root}/{reason}": files for reason, files in dead_letters.items()}
        return tuple(
            Move(source, f"{target}/b-{stream.query}-{batch}-{n}.orc")
            for target, files in targets.items()
            for n, source in enumerate(files)
        )


def _check_complete(staged: StagedFiles, rows: int) -> None:
    """Raise Inconsistent unless the files that the driver sees hold all rows written."""
    if rows != staged.counts["rows"]:
        raise Inconsistent(
            "the files of a batch do not contain its rows",
            directory=staged.directory,
            rows=staged.counts["rows"],
            found=rows,
            hint="Nothing was published. Check that executors and driver see the same files: the table "
            "must not be on a local disk of one machine.",
        )


def _build_delta(counts: FileCounts, staged: StagedFiles) -> HourDelta:
    """Return what the batch adds to an hour. The hour's share of the bytes equals its share of the rows."""
    share = staged.counts["bytes"] * counts.rows // max(1, staged.counts["rows"])
    return HourDelta(counts.rows, counts.nonnull, share)


def _sum_misfits(observed: Mapping[int, Observations]) -> int:
    return sum(counts.misfits for each in observed.values() for counts in each.keys.values())
