"""Backfill: splits past hours again from the raw table, so that they have the values of keys that were
requested later.

The stream fills a new column only for new rows. For an older hour, a backfill reads the events of the hour
from the raw table, splits them with all current columns, and replaces the files of the hour. A backfill must
not lose rows. If the raw table holds fewer events of the hour than the flat table, the hour stays unchanged
and appears in the report (the raw table may start later, may have lost files, or holds events that the stream
rejected as too late). The flat table's own malformed rows stay.

In general, rows of the raw and the flat table cannot be matched one by one, so a backfill replaces an hour
with all its columns. A backfill of one key chooses the hours that need it. If another key, such as an id,
identifies the events of an hour, the backfill computes only the first key and copies the other columns. For
each hour, it checks that every event has a value of the identifying key on both sides, that no two events
have the same value, and that both sides have the same values. Then each flat row has exactly one raw event.
Malformed rows have no event time, so the raw events of an hour do not include them, and they stay unchanged.
If a check fails, the backfill replaces the hour with all its columns. As always, if a value does not fit, the
text of its event goes to ``_rescued``.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from state.columns.slots import RESCUED, Layout, SlotState
from state.columns.types import ColumnType
from state.errors import InvalidRequest, NotFound
from streaming.batch.observations import merge_counts
from streaming.split.file_columns import textual_slots
from streaming.split.parse_schema import quote
from streaming.split.split_plan import MALFORMED
from streaming.split.splitter import split
from streaming.table.parameters import ROWS, VALUES
from streaming.table.value_counts import parse_counts
from streaming.upkeep.raw_hours import hour_directory, open_raw, stage_hours
from streaming.upkeep.rewriting import split_rescued_again


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from state.columns.paths import KeyPath
    from state.columns.slots import Slot
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


_ID, _VALUE, _TEXT = "_tideline_id", "_tideline_value", "_tideline_text"
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
    """Split sealed ``hours`` (None: all) again from the raw table, in order; omit open hours.

    With ``any_number``, uses the raw table even if it holds more events than the hour. With ``key``, splits
    only hours that were written before the key had its column and hold no value of it. With ``match`` as
    well, keeps the other columns of an hour if the key ``match`` identifies its events. Raises ConfigError
    without a raw table, NotFound if a key has no column, and InvalidRequest if rows cannot be matched by that
    column.
    """
    raw = open_raw(rewriter)
    hours_to_fill = [
        each for each in _choose_hours(rewriter, state, key) if hours is None or each.hour in hours
    ]
    matching = None if key is None or match is None else find_match(state, key, match)
    results: dict[int, BackfillResult] = {}

    def note(result: BackfillResult) -> None:
        results[result.hour] = result
        rewriter.report("backfilled", result.hour, len(results), len(hours_to_fill))

    for start in range(0, len(hours_to_fill), HOURS_PER_SCAN):
        group = hours_to_fill[start : start + HOURS_PER_SCAN]
        if matching is not None:
            group = _backfill_matched(rewriter, state, raw, group, matching, note)
        if not group:
            continue
        layout = _revive_keys(state.layout)
        with _staged(rewriter, state, layout, raw, group) as directory:
            for partition in group:
                staged = rewriter.sampler.list_files(hour_directory(directory, partition.hour))
                note(_backfill_hour(rewriter, state, partition, staged, any_number=any_number))
    return [results[each.hour] for each in hours_to_fill]


@contextmanager
def _staged(
    rewriter: Rewriter, state: TableState, layout: Layout, raw: DataFrame, group: Sequence[HourPartition]
) -> Iterator[str]:
    """Stage the raw events of these hours for the block, and remove the staged files at the end."""
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
    """Fill the key in the hours of the group whose events the matching key identifies.

    Returns the remaining hours.
    """
    unmatched = []
    with _staged(rewriter, state, match.layout, raw, group) as directory:
        for partition in group:
            staged = rewriter.sampler.list_files(hour_directory(directory, partition.hour))
            rows = match_rows(rewriter, state, partition, staged, match)
            if rows is None:
                unmatched.append(partition)
                continue
            written = rewriter.rewrite(partition, state, sealed=True, replaced_by=rows)
            count = int(written.parameters[ROWS])
            note(BackfillResult(partition.hour, count, count, is_done=True, is_matched=True))
    return unmatched


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
    row_count = merge_counts(sampler.read_counts(staged)).rows
    if had.nonnull and had.nonnull[0]:
        malformed = select_malformed(rewriter.read(files, state.layout), state.layout)
        row_count += malformed.count()
        rows = malformed if rows is None else rows.unionByName(malformed)
    if rows is None or not (row_count == had.rows or (any_number and row_count > had.rows)):
        return BackfillResult(partition.hour, had.rows, row_count, is_done=False)
    rewriter.rewrite(partition, state, sealed=True, replaced_by=rows, more_rows=any_number)
    return BackfillResult(partition.hour, had.rows, row_count, is_done=True)


def _revive_keys(layout: Layout) -> Layout:
    """Return the layout with retired keys as live keys, so that their values in the hour are kept."""
    slots = (
        replace(slot, state=SlotState.LIVE) if slot.state is SlotState.EMPTY else slot
        for slot in layout.slots
    )
    return Layout(layout.version, tuple(slots))


@dataclass(frozen=True, slots=True)
class Match:
    """A key to fill, and the key that identifies events; ``layout`` has only their columns."""

    key: Slot
    by: Slot
    layout: Layout


def find_match(state: TableState, key: KeyPath, by: KeyPath) -> Match:
    """Return the columns of both keys. Raises NotFound if one has none, and InvalidRequest if ``by`` cannot
    identify events.
    """
    slots = state.layout.by_key
    if missing := [each.text for each in (key, by) if each not in slots]:
        raise NotFound("the key to match rows by, or the key to fill, has no column", keys=missing)
    identifying = slots[by]
    if by == key or identifying.type is ColumnType.DOUBLE or identifying.index in textual_slots(state):
        raise InvalidRequest(
            "rows cannot be matched by this key",
            key=by.text,
            type=identifying.type.hive,
            hint="Use a key other than the one to fill. Its column must be text or an integer and must not "
            "be changing its type.",
        )
    pair = (replace(identifying, index=1), replace(slots[key], index=2))
    return Match(slots[key], identifying, Layout(state.version, (state.layout.slots[0], *pair)))


def match_rows(
    rewriter: Rewriter, state: TableState, partition: HourPartition, staged: Sequence[str], match: Match
) -> DataFrame | None:
    """Return the rows of the hour with the values of the key; None if the matching key does not identify all
    events.
    """
    files = rewriter.sampler.list_files(str(partition.location))
    if not staged or not files:
        return None
    had, raw_counts = (merge_counts(rewriter.sampler.read_counts(each)) for each in (files, staged))
    by = match.by.index
    identified = had.nonnull[by] if by < len(had.nonnull) else 0
    if not raw_counts.rows == raw_counts.nonnull[1] == identified:
        return None
    flat, raw = rewriter.read(files, state.layout), rewriter.read(staged, match.layout)
    if had.rows > identified and select_malformed(flat, state.layout).count() != had.rows - identified:
        return None
    if not _is_bijection(flat, raw, match.by.name):
        return None
    if had.nonnull[0]:
        flat = split_rescued_again(flat, state.layout, rewriter.settings.rules.numeric_strings)
    return _join(flat, raw, state.layout, match)


def _is_bijection(flat: DataFrame, raw: DataFrame, name: str) -> bool:
    """Whether both sides have the same values in this column, each value once. Ignores NULLs."""
    from pyspark.sql import functions

    column = quote(name)
    sides = [
        rows.filter(f"{column} IS NOT NULL").selectExpr(
            f"{column} AS {_ID}", f"{n} AS flat", f"{1 - n} AS raw"
        )
        for n, rows in enumerate([raw, flat])
    ]
    counts = (
        sides[0]
        .unionByName(sides[1])
        .groupBy(_ID)
        .agg(functions.expr("sum(flat) = 1 AND sum(raw) = 1 AS once"))
    )
    return not counts.filter("NOT once").head(1)


def _join(flat: DataFrame, raw: DataFrame, layout: Layout, match: Match) -> DataFrame:
    pairs = raw.selectExpr(
        f"{quote(match.by.name)} AS {_ID}", f"{quote(match.key.name)} AS {_VALUE}", f"{RESCUED} AS {_TEXT}"
    )
    columns = {
        RESCUED: f"coalesce({RESCUED}, {_TEXT}) AS {RESCUED}",
        match.key.name: f"{_VALUE} AS {quote(match.key.name)}",
    }
    joined = flat.join(pairs, flat[quote(match.by.name)] == pairs[_ID], "left")
    return joined.selectExpr(*(columns.get(slot.name, quote(slot.name)) for slot in layout.slots))


def select_malformed(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the malformed rows among those of a flat table, with all slots."""
    texts = rows.filter(f"{RESCUED} IS NOT NULL").selectExpr(f"{RESCUED} AS value")
    return split(texts, layout).filter(MALFORMED).selectExpr(*(quote(slot.name) for slot in layout.slots))
