"""Hard widening: a column of numbers becomes text, while people go on reading it.

Spark's reader fails on a filter over files whose type is of another family than the table's, and text under a column of numbers
reads as NULL; so neither the table nor the files can simply be changed first. The way through:

1. the table's parameter says which slots harden, and from which version on. From now on every file that is written holds their
   values as text, and names no columns (``slot_columns``): such a file reads right under both types;
2. each older hour is rewritten so, a few between any two batches. What did not fit stays in ``_rescued`` as yet, so a number
   column shows no text that is none;
3. when no older hour is left, the table's type is flipped, by compare-and-set;
4. sealed hours with rows in ``_rescued`` are rewritten once more: their values fit now.

All of it follows from the table's and the partitions' parameters, so a crash anywhere is only a pause.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from state.columns.evolution import promote_to_string
from streaming.split.file_columns import textual_slots
from streaming.table.parameters import LAST_PROMOTION, LAYOUT_VERSION, PROMOTION


if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.table.flat_table import FlatTable, HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


def find_pending(state: TableState, partitions: Sequence[HourPartition]) -> list[HourPartition]:
    """Return the hours that still have files of the old type."""
    text = state.parameters.get(PROMOTION)
    if not text:
        return []
    since = int(json.loads(text)["version"])
    return [each for each in partitions if int(each.parameters.get(LAYOUT_VERSION, 0)) < since]


def advance(rewriter: Rewriter, state: TableState, *, hours_max: int) -> tuple[TableState, int]:
    """Rewrite up to ``hours_max`` hours, and flip the type when none is left; return the state and the hours left."""
    if not textual_slots(state):
        return state, 0
    waiting = find_pending(state, rewriter.table.partitions())
    for partition in waiting[:hours_max]:
        rewriter.rewrite(partition, state, sealed=partition.is_sealed)
    if len(waiting) > hours_max:
        return state, len(waiting) - hours_max
    return _flip(rewriter.table, rewriter.lease.hold()), 0


def _flip(table: FlatTable, state: TableState) -> TableState:
    slots = textual_slots(state)
    layout = state.layout
    for slot in sorted(slots):
        layout = promote_to_string(layout, slot)
    failpoint("flat.flip")
    changes = {PROMOTION: None, LAST_PROMOTION: str(layout.version)}
    altered = table.alter(state, layout, parameters=changes, proven=slots)
    failpoint("flat.flipped")
    return altered
