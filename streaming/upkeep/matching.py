"""Computes one key of an hour from the raw table, and takes the other columns from the hour as they are.

A raw event and a flat row are the same event if a third key, such as an id, identifies the events of the hour. That is not assumed but
counted, for each hour: on both sides, every event has a value of this key, no two events have the same one, and both sides have the same
values. Then each flat row has exactly one raw event, in any order of the two sides. Malformed rows have no event time, so the raw
events of an hour do not include them; they stay as they are.

If one of these conditions does not hold, the hour is left to the general way, which replaces it with all its columns.

Only the event time and two keys are parsed, and the columns of the hour are copied. Values that do not fit the column of the key put the
text of their event into ``_rescued``, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from state.columns.slots.slots import RESCUED, Layout
from state.columns.types import ColumnType
from state.errors import InvalidRequest, NotFound
from streaming.batch.observations import merge_counts
from streaming.split.file_columns import textual_slots
from streaming.split.parse_schema import quote
from streaming.split.splitter import MALFORMED, split
from streaming.upkeep.rewriting import split_rescued_again


if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from state.columns.paths import KeyPath
    from state.columns.slots.slots import Slot
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


_ID, _VALUE, _TEXT = "_tideline_id", "_tideline_value", "_tideline_text"


@dataclass(frozen=True, slots=True)
class Match:
    """A key to fill, and the key that identifies events; ``layout`` has their columns alone."""

    key: Slot
    by: Slot
    layout: Layout


def find_match(state: TableState, key: KeyPath, by: KeyPath) -> Match:
    """Return the columns of both keys. Raises NotFound if one has none, and InvalidRequest if ``by`` cannot identify events."""
    slots = state.layout.by_key
    if missing := [each.text for each in (key, by) if each not in slots]:
        raise NotFound("the key to match rows by, or the key to fill, has no column", keys=missing)
    found = slots[by]
    if by == key or found.type is ColumnType.DOUBLE or found.index in textual_slots(state):
        raise InvalidRequest(
            "rows cannot be matched by this key",
            key=by.text,
            type=found.type.hive,
            hint="Use another key than the one to fill, whose column is text or an integer and is not changing its type.",
        )
    pair = (replace(found, index=1), replace(slots[key], index=2))
    return Match(slots[key], found, Layout(state.version, (state.layout.slots[0], *pair)))


def match_rows(
    rewriter: Rewriter, state: TableState, partition: HourPartition, staged: Sequence[str], match: Match
) -> DataFrame | None:
    """Return the rows of the hour with the values of the key, or None if the other key does not identify all events."""
    files = rewriter.sampler.list_files(str(partition.location))
    if not staged or not files:
        return None
    had, found = (merge_counts(rewriter.sampler.read_counts(each)) for each in (files, staged))
    by = match.by.index
    identified = had.nonnull[by] if by < len(had.nonnull) else 0
    if not found.rows == found.nonnull[1] == identified:
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
    """Whether both sides have the same values in this column, each of them once; NULLs do not count."""
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
