"""Promotion to STRING: a column of numbers becomes text while users' queries continue.

Spark's reader fails on a filter over files whose type belongs to another family than the table's type, and text under a numeric column
reads as NULL. So neither the table nor the files can simply be changed first. The promotion takes these steps:

0. The promotion is announced for ``rules.promotion_delay_hours`` (``streaming.batch.schema_evolution.announce_promotions``). Until
   then nothing changes, and a pin stops it.
1. A table parameter records which slots are promoted, and since which version (``streaming.batch.schema_evolution.begin_promotion``).
   From now on every new file holds their values as text, marked so that Spark does not filter by them
   (``streaming.split.pushdown_guard``). Such a file is read correctly under both types.
2. Each older hour is rewritten in this form, a few between two batches. Values that did not fit stay in ``_rescued`` for now, so a
   numeric column shows no text that is not a number.
3. When no older hour is left, the table's type is changed by compare-and-set.
4. Sealed hours with rows in ``_rescued`` are rewritten once more, because their values fit now (``sealing.find_outgrown``).
5. New files are marked until queries that were planned before step 3 have ended: for ``sealing.old_files_s``, as replaced
   directories are kept.

The state of a promotion is in the parameters of the table and its partitions, so a crash only interrupts it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from state.columns.evolution import promote_to_string
from streaming.split.file_columns import promoting_slots, textual_slots
from streaming.table.parameters import LAST_NARROWING, LAST_PROMOTION, LAYOUT_VERSION, PROMOTED, PROMOTION


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
    state = _end_marking(rewriter, state)
    if not promoting_slots(state):
        return state, 0
    # 2. Rewrite older hours.
    waiting = find_pending(state, rewriter.table.partitions())
    for done, partition in enumerate(waiting[:hours_max], 1):
        rewriter.rewrite(partition, state, sealed=partition.is_sealed)
        rewriter.report("rewritten for a promotion", partition.hour, done, len(waiting))
    if len(waiting) > hours_max:
        return state, len(waiting) - hours_max
    # 3. Change the type.
    until_s = rewriter.clock() + rewriter.settings.sealing.old_files_s
    return _change_type(rewriter.table, rewriter.lease.hold(), until_s), 0


def _change_type(table: FlatTable, state: TableState, until_s: float) -> TableState:
    """Change the type in the table; new files are marked until ``until_s``."""
    slots = promoting_slots(state)
    layout = state.layout
    for slot in sorted(slots):
        layout = promote_to_string(layout, slot)
    failpoint("flat.flip")
    marked = json.dumps({"slots": sorted(textual_slots(state)), "until_s": round(until_s)})
    changes = {PROMOTION: None, PROMOTED: marked, LAST_PROMOTION: str(layout.version)}
    altered = table.alter(state, layout, parameters=changes, proven=slots)
    failpoint("flat.flipped")
    return altered


def _end_marking(rewriter: Rewriter, state: TableState) -> TableState:
    """Step 5: stop marking files when no query planned before the change of type can still run."""
    text = state.parameters.get(PROMOTED)
    if not text or rewriter.clock() < json.loads(text)["until_s"]:
        return state
    changes: dict[str, str | None] = {PROMOTED: None}
    if json.loads(text).get("narrowed"):
        changes[LAST_NARROWING] = str(state.version + 1)
    return rewriter.table.alter(state, parameters=changes)
