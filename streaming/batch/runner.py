"""One batch of the stream, from its rows to the table: planned, staged, decided, published.

Spark calls this at least once for every batch, with the same rows each time; the records of ``streaming.batch.records`` make it happen
exactly once. Wherever it was killed, the next call finds out how far it came:

* nothing on record: the table is evolved, the plan noted, and everything follows;
* a plan: rows take the ways of that plan. Its columns give way to the table's if those were altered since;
* a decided batch: its files are moved where they are not yet, and nothing is read again;
* a batch that is done: nothing is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from handlers.failpoints import failpoint
from state.columns.observations import HourCounts
from state.errors import Inconsistent
from streaming.batch.observations import merge_counts, observe_batch, observe_sample
from streaming.batch.records import BatchPlan, HourDelta, Move, StagedBatch, have_same_columns
from streaming.batch.routing import Reason
from streaming.batch.schema_evolution import (
    begin_promotion,
    current_hour,
    evolve,
    find_keys_without_column,
    propose,
    propose_proven,
)
from streaming.batch.watermark import Watermark
from streaming.split.file_columns import textual_slots


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from state.columns.observations import Observations
    from streaming.batch.key_demand import KeyDemand, RequestedKeys
    from streaming.batch.observations import FileCounts
    from streaming.batch.publishing import Publisher
    from streaming.batch.records import BatchRecords, HourCountsFile
    from streaming.batch.sampling import Sampler
    from streaming.batch.staging import StagedFiles, Stager
    from streaming.settings import FlatSettings
    from streaming.table.flat_table import TableState
    from streaming.table.lease import WriterLease
    from streaming.table.partition_cache import CachedTable


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a batch's rows come from, as Spark noted it: a line of offsets, and the source's partitions."""

    line: str
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """The parts that work together on one table's stream."""

    settings: FlatSettings
    query: str
    """Short for the id of the checkpoint; in every file name."""
    table: CachedTable
    lease: WriterLease
    records: BatchRecords
    hour_counts: HourCountsFile
    stager: Stager
    publisher: Publisher
    key_demand: KeyDemand
    sampler: Sampler
    clock: Callable[[], float]


class BatchRunner:
    """Runs the batches of a stream, one at a time."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def run(self, raw: Any, batch: int, origin: Origin) -> StagedBatch:
        """Bring the rows of ``raw`` into the table and return the batch done.

        Raises Inconsistent where the batch was decided with other rows, StateLocked or Conflict where another writer has the
        table, Transient where the metastore or the files are away: the same call again then carries on.
        """
        staged = self._stream.records.staged(batch)
        if staged is None:
            staged = self._decide(raw, batch, origin)
        elif staged.origin != origin.line:
            raise Inconsistent(
                "a batch that is in the table would be made from other rows now",
                batch=batch,
                hint="Spark's checkpoint was changed by hand: restore it, or begin with a new checkpoint.",
            )
        return self.finish(staged)

    def finish(self, staged: StagedBatch) -> StagedBatch:
        """Publish a decided batch, and note what it held."""
        if staged.done:
            return staged
        stream = self._stream
        stream.lease.hold()
        done = stream.publisher.publish(staged)
        book = stream.hour_counts.load()
        noted = book.with_batch(done.batch, done.observed.hours)
        if noted is not book:
            stream.hour_counts.save(noted, current_hour(noted, done.watermark.reached_s))
        failpoint("flat.noted")
        return stream.records.finish(done)

    def _decide(self, raw: Any, batch: int, origin: Origin) -> StagedBatch:
        stream = self._stream
        state = stream.lease.hold()
        plan = self._planned(raw, batch, state)
        failpoint("flat.planned")
        written = stream.stager.stage(raw, plan, origin.parts)
        staged = self._staged(plan, origin, written)
        failpoint("flat.staged")
        stream.records.save_staged(staged)
        failpoint("flat.decided")
        return staged

    def _planned(self, raw: Any, batch: int, state: TableState) -> BatchPlan:
        stream = self._stream
        plan = stream.records.plan(batch)
        if plan is None:
            plan = self._plan(raw, batch, state)
        elif not have_same_columns(plan.layout, state.layout) or plan.textual != textual_slots(state):
            plan = replace(plan, layout=state.layout, textual=textual_slots(state))
        stream.records.save_plan(plan)
        return plan

    def _plan(self, raw: Any, batch: int, state: TableState) -> BatchPlan:
        stream = self._stream
        last = stream.records.last()
        watermark = Watermark() if last is None else last.watermark
        draft = BatchPlan(batch, state.layout, watermark, int(stream.clock()))
        questions = stream.key_demand.read()
        sample = self._sample(raw, draft, questions, state)
        book = stream.hour_counts.load().join(HourCounts(sample))
        partitions = stream.table.partitions()
        hour = current_hour(book, watermark.reached_s)
        found = propose_proven(
            lambda held: propose(state, questions, book, held, hour), partitions, stream.sampler
        )
        altered = evolve(stream.table, state, found.evolution)
        altered = begin_promotion(stream.table, altered, found.evolution)
        document = found.document(altered, book, partitions)
        stream.key_demand.save_snapshot(altered.version, document, found.made if altered is not state else ())
        live = set(altered.layout.by_key)
        kept = {hour: seen.without(live) for hour, seen in sample.items()}
        return replace(draft, layout=altered.layout, textual=textual_slots(altered), sampled=HourCounts(kept))

    def _sample(
        self, raw: Any, draft: BatchPlan, questions: RequestedKeys, state: TableState
    ) -> dict[int, Observations]:
        keys = find_keys_without_column(questions, state)
        if not keys:
            return {}
        return observe_sample(self._stream.sampler.sample(raw, draft), questions.rules, keys)

    def _staged(self, plan: BatchPlan, origin: Origin, written: StagedFiles) -> StagedBatch:
        stream = self._stream
        sampler = stream.sampler
        counts = {hour: merge_counts(sampler.read_counts(files)) for hour, files in written.hours.items()}
        letters = {reason: list(files) for reason, files in written.letters.items()}
        totals = {reason: merge_counts(sampler.read_counts(files)).rows for reason, files in letters.items()}
        _check_whole(written, sum(each.rows for each in counts.values()) + sum(totals.values()))
        misfits = {
            hour: sampler.sample_misfits(files, counts[hour].nonnull[0], plan.layout)
            for hour, files in written.hours.items()
        }
        if written.seen["malformed"] and written.hours:
            files = [path for listed in written.hours.values() for path in listed]
            letters[Reason.MALFORMED.value] = sampler.copy_malformed(
                files, f"{written.directory}/malformed", plan.layout
            )
        rules = stream.settings.rules
        hours = {
            hour: observe_batch(plan.layout, each, misfits[hour], rules) for hour, each in counts.items()
        }
        return StagedBatch(
            batch=plan.batch,
            origin=origin.line,
            directory=written.directory,
            moves=self._moves(plan.batch, written, letters),
            hours={hour: _hour_counts(each, written) for hour, each in counts.items()},
            counts={**totals, **written.seen, "misfits": _misfits(hours)},
            watermark=plan.watermark.advance(written.latest_s, plan.now_s, stream.settings.event_time.idle_s),
            observed=HourCounts(hours).join(plan.sampled),
        )

    def _moves(self, batch: int, written: StagedFiles, letters: Mapping[str, list[str]]) -> tuple[Move, ...]:
        stream = self._stream
        places = {str(stream.publisher.hour(hour).location): files for hour, files in written.hours.items()}
        root = stream.settings.dead_letter_directory
        places |= {f"{root}/{reason}": files for reason, files in letters.items()}
        return tuple(
            Move(source, f"{place}/b-{stream.query}-{batch}-{n}.orc")
            for place, files in places.items()
            for n, source in enumerate(files)
        )


def _check_whole(written: StagedFiles, rows: int) -> None:
    """Raise Inconsistent unless the files that the driver sees hold all rows that were written."""
    if rows != written.seen["rows"]:
        raise Inconsistent(
            "the files of a batch do not hold its rows",
            directory=written.directory,
            rows=written.seen["rows"],
            found=rows,
            hint="Nothing was published. Executors and driver have to see the same files: is the table on a disk of one machine?",
        )


def _hour_counts(counts: FileCounts, written: StagedFiles) -> HourDelta:
    """Return an hour's counts; its share of the bytes is its share of the rows."""
    share = written.seen["bytes"] * counts.rows // max(1, written.seen["rows"])
    return HourDelta(counts.rows, counts.nonnull, share)


def _misfits(hours: Mapping[int, Observations]) -> int:
    return sum(seen.misfits for each in hours.values() for seen in each.keys.values())
