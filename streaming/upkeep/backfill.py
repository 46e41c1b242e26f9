"""Backfill: past hours are split again from the raw table, so that keys requested since then have their values there too.

The stream fills a new column only for new rows. For older hours the raw table is the source: the events of an hour are read from it,
split with all current columns, and replace the hour like any rewriting. No rows may be lost by this. If the raw table holds fewer events
of the hour than the flat table, the hour is left unchanged and reported (the raw table may start later, may have been cleaned, or holds
what the stream rejected as too late). The flat table's own malformed rows are kept.

In general, rows of the raw and the flat table cannot be matched one by one, so an hour is replaced with all its columns. A backfill of one
key chooses the hours that need it. If another key identifies the events, it can compute this key alone (``streaming.upkeep.matching``);
hours where that key does not identify every event are replaced with all columns.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from state.columns.slots.slots import Layout, SlotState
from state.errors import NotFound
from streaming.batch.observations import merge_counts
from streaming.table.parameters import ROWS, VALUES
from streaming.table.value_counts import parse_counts
from streaming.upkeep.matching import find_match, match_rows, select_malformed
from streaming.upkeep.raw_hours import hour_directory, open_raw, stage_hours


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from state.columns.paths import KeyPath
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.matching import Match
    from streaming.upkeep.rewriting import Rewriter


HOURS_PER_SCAN: Final = 24
"""Hours whose raw events are read in one scan; the split rows wait in the staging directory."""


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """The outcome for an hour."""

    hour: int
    rows: int
    raw_rows: int
    is_done: bool
    """False if the raw table holds another number of events, so that the hour was left unchanged."""
    is_matched: bool = False
    """Whether only the values of one key were computed, and the other columns stayed as they were."""


def backfill(
    rewriter: Rewriter,
    state: TableState,
    hours: range | None,
    *,
    any_number: bool = False,
    key: KeyPath | None = None,
    match: KeyPath | None = None,
) -> list[BackfillResult]:
    """Split sealed ``hours`` (None: all) again from the raw table, in order; open hours are left out.

    With ``any_number``, the raw table is used even if it holds more events than the hour. With ``key``, only hours are chosen that
    were written before the key had its column, and hold no value of it. With ``match`` too, the other columns of an hour stay as
    they are if the key ``match`` identifies its events. Raises ConfigError without a raw table, NotFound if a key has no
    column, and InvalidRequest if rows cannot be matched by that column.
    """
    raw = open_raw(rewriter)
    chosen = [each for each in _choose_hours(rewriter, state, key) if hours is None or each.hour in hours]
    matching = None if key is None or match is None else find_match(state, key, match)
    done: dict[int, BackfillResult] = {}

    def note(result: BackfillResult) -> None:
        done[result.hour] = result
        rewriter.report("backfilled", result.hour, len(done), len(chosen))

    for start in range(0, len(chosen), HOURS_PER_SCAN):
        group = chosen[start : start + HOURS_PER_SCAN]
        if matching is not None:
            group = _backfill_matched(rewriter, state, raw, group, matching, note)
        if not group:
            continue
        layout = _revive_keys(state.layout)
        with _staged(rewriter, state, layout, raw, group) as directory:
            for partition in group:
                staged = rewriter.sampler.list_files(hour_directory(directory, partition.hour))
                note(_backfill_hour(rewriter, state, partition, staged, any_number=any_number))
    return [done[each.hour] for each in chosen]


@contextmanager
def _staged(
    rewriter: Rewriter, state: TableState, layout: Layout, raw: DataFrame, group: Sequence[HourPartition]
) -> Iterator[str]:
    """Stage the raw events of these hours, and remove them at the end."""
    directory = f"{rewriter.settings.location.rstrip('/')}/.staging/backfill-{secrets.token_hex(4)}"
    try:
        stage_hours(rewriter, state, layout, raw, group, directory)
        yield directory
    finally:
        rewriter.storage.remove(directory)


def _backfill_matched(  # noqa: PLR0913, PLR0917 - as many as a scan needs
    rewriter: Rewriter,
    state: TableState,
    raw: DataFrame,
    group: Sequence[HourPartition],
    match: Match,
    note: Callable[[BackfillResult], None],
) -> list[HourPartition]:
    """Fill one key in the hours of the group whose events the other key identifies; return the other hours."""
    left = []
    with _staged(rewriter, state, match.layout, raw, group) as directory:
        for partition in group:
            staged = rewriter.sampler.list_files(hour_directory(directory, partition.hour))
            rows = match_rows(rewriter, state, partition, staged, match)
            if rows is None:
                left.append(partition)
                continue
            written = rewriter.rewrite(partition, state, sealed=True, replaced_by=rows)
            count = int(written.parameters[ROWS])
            note(BackfillResult(partition.hour, count, count, is_done=True, is_matched=True))
    return left


def _choose_hours(rewriter: Rewriter, state: TableState, key: KeyPath | None) -> list[HourPartition]:
    """Return the sealed hours; with ``key`` only those that hold no value of it."""
    sealed = [each for each in rewriter.table.partitions() if each.is_sealed]
    if key is None:
        return sealed
    slot = state.layout.by_key.get(key)
    if slot is None:
        raise NotFound(
            "the key has no column",
            key=key.text,
            table=rewriter.settings.name,
            hint="'tideline keys list --why' shows the reason for each key.",
        )
    return [each for each in sealed if not _count_values(each, slot.index)]


def _count_values(partition: HourPartition, slot: int) -> int:
    values = parse_counts(partition.parameters.get(VALUES, ""))
    return values[slot] if slot < len(values) else 0


def _backfill_hour(
    rewriter: Rewriter,
    state: TableState,
    partition: HourPartition,
    staged: Sequence[str],
    *,
    any_number: bool,
) -> BackfillResult:
    sampler = rewriter.sampler
    files = sampler.list_files(str(partition.location))
    had = merge_counts(sampler.read_counts(files))
    rows = rewriter.read(staged, state.layout) if staged else None
    found = merge_counts(sampler.read_counts(staged)).rows
    if had.nonnull and had.nonnull[0]:
        kept = select_malformed(rewriter.read(files, state.layout), state.layout)
        found += kept.count()
        rows = kept if rows is None else rows.unionByName(kept)
    if rows is None or not (found == had.rows or (any_number and found > had.rows)):
        return BackfillResult(partition.hour, had.rows, found, is_done=False)
    rewriter.rewrite(partition, state, sealed=True, replaced_by=rows, more_rows=any_number)
    return BackfillResult(partition.hour, had.rows, found, is_done=True)


def _revive_keys(layout: Layout) -> Layout:
    """Return the layout with retired keys as live ones, so that their values in the hour are kept."""
    slots = (
        replace(slot, state=SlotState.LIVE) if slot.state is SlotState.EMPTY else slot
        for slot in layout.slots
    )
    return Layout(layout.version, tuple(slots))
