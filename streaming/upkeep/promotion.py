"""Promotion to STRING: a column of numbers becomes text while users' queries continue.

Spark's reader fails on a filter over files whose type belongs to another family than the table's type, and text under a numeric column
reads as NULL. So neither the table nor the files can simply be changed first. The promotion takes four steps:

1. A table parameter records which slots are promoted, and since which version (``streaming.batch.schema_evolution.begin_promotion``).
   From now on every new file holds their values as text and has no column names (``slot_columns``). Such a file is read correctly
   under both types.
2. Each older hour is rewritten in this form, a few between two batches. Values that did not fit stay in ``_rescued`` for now, so a
   numeric column shows no text that is not a number.
3. When no older hour is left, the table's type is changed by compare-and-set.
4. Sealed hours with rows in ``_rescued`` are rewritten once more, because their values fit now (``sealing.find_outgrown``).

The state of a promotion is in the parameters of the table and its partitions, so a crash only interrupts it.
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
    """Rewrite up to ``hours_max`` hours and change the type when none is left; return the state and the number of hours left."""
    if not textual_slots(state):
        return state, 0
    # 2. Rewrite older hours.
    waiting = find_pending(state, rewriter.table.partitions())
    for partition in waiting[:hours_max]:
        rewriter.rewrite(partition, state, sealed=partition.is_sealed)
    if len(waiting) > hours_max:
        return state, len(waiting) - hours_max
    # 3. Change the type.
    return _change_type(rewriter.table, rewriter.lease.hold()), 0


def _change_type(table: FlatTable, state: TableState) -> TableState:
    slots = textual_slots(state)
    layout = state.layout
    for slot in sorted(slots):
        layout = promote_to_string(layout, slot)
    failpoint("flat.flip")
    changes = {PROMOTION: None, LAST_PROMOTION: str(layout.version)}
    altered = table.alter(state, layout, parameters=changes, proven=slots)
    failpoint("flat.flipped")
    return altered
