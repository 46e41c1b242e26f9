"""Changes a column's type while users' queries continue: promotion of a number to STRING, and narrowing back.

Spark's reader fails on a filter over files whose type is not in the family of the table's type, and text
under a numeric column reads as NULL. So neither the table's type nor the files can change first. A promotion
takes these steps:

0. The promotion is announced for ``rules.promotion_delay_hours``
   (``streaming.batch.schema_evolution.announce_promotions``). Until then nothing changes, and a pin of the
   type prevents the promotion.
1. A table parameter records which slots are promoted, and since which version
   (``streaming.batch.schema_evolution.begin_promotion``). From now on every new file holds their values as
   text, marked so that Spark does not filter by them (``streaming.split.pushdown_guard``). Readers read such
   a file correctly with both types.
2. The driver rewrites each older hour in this form, a few hours between two batches. Values that did not fit
   stay in ``_rescued`` for now, so a numeric column shows no text that is not a number.
3. When no older hour is left, the table's type is changed by compare-and-set.
4. Sealed hours with rows in ``_rescued`` are rewritten once more, because the values fit now
   (``maintenance.find_outgrown``).
5. New files stay marked until queries planned before step 3 have ended, for ``sealing.old_files_s``, the same
   time for which replaced directories are kept.

A column may have become STRING by values that have left the table since, or by values of a faulty producer.
If all its values are numbers, it becomes numeric again on request:

1. Tideline reads all retained values, and chooses the narrowest type in which each of them has the same text.
   If there is none, it refuses the request with the number of values that do not fit.
2. A table parameter records the slot and its future type. From now on every new file holds the column as
   marked text.
3. Each older hour is rewritten in this form.
4. Tideline reads all values once more, because rows have arrived since. If all fit, it changes the type in
   the table by compare-and-set; otherwise the narrowing ends without a change.
5. New files stay marked text for ``sealing.old_files_s``, because queries planned before step 4 may list
   them. After that new files hold numbers, and sealed hours are rewritten with numbers
   (``maintenance.find_outgrown``).

The state of both changes is in the parameters of the table and its partitions, so after a crash, the next
maintenance continues them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from handlers.failpoints import failpoint
from state.columns.evolution import promote_to_string
from state.columns.paths import KeyPath
from state.columns.slots import Layout, Slot
from state.columns.types import ColumnType
from state.errors import InvalidRequest, NotFound
from streaming.split.file_columns import narrowing_types, promoting_slots, textual_slots
from streaming.split.parse_schema import quote
from streaming.split.split_plan import read_number
from streaming.table.flat_table import FlatTable, HourPartition, TableState
from streaming.table.parameters import (
    LAST_NARROWING,
    LAST_PROMOTION,
    LAYOUT_VERSION,
    NARROWING,
    PROMOTED,
    PROMOTION,
)
from streaming.upkeep.rewriting import Rewriter


NUMBERS: Final = (
    ColumnType.TINYINT,
    ColumnType.SMALLINT,
    ColumnType.INT,
    ColumnType.BIGINT,
    ColumnType.DOUBLE,
)


def advance_promotion(rewriter: Rewriter, state: TableState, *, hours_max: int) -> tuple[TableState, int]:
    """Rewrite up to ``hours_max`` hours and change the type when none is left.

    Returns the state and the number of hours left.
    """
    state = _end_marking(rewriter, state)
    if not promoting_slots(state):
        return state, 0
    # 2. Rewrite older hours.
    if hours_left := _rewrite_older(rewriter, state, PROMOTION, "rewritten for a promotion", hours_max):
        return state, hours_left
    # 3. Change the type.
    until_s = rewriter.clock() + rewriter.settings.sealing.old_files_s
    return _change_type(rewriter.table, rewriter.lease.hold(), until_s), 0


def _change_type(table: FlatTable, state: TableState, until_s: float) -> TableState:
    """Change the type in the table; new files stay marked until ``until_s``."""
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


def begin_narrowing(
    rewriter: Rewriter, state: TableState, key: KeyPath, target: ColumnType | None = None
) -> TableState:
    """Record that the column of ``key`` becomes ``target``, by default the narrowest type that holds all
    values; return the new state.

    Raises NotFound if the key has no column, and InvalidRequest if the column is not STRING, another change
    of types is in progress, or some value does not fit.
    """
    slot = state.layout.by_key.get(key)
    if slot is None:
        raise NotFound("the key has no column", key=key.text, table=rewriter.settings.name)
    if slot.index in narrowing_types(state):
        return state
    if slot.type is not ColumnType.STRING or promoting_slots(state) or narrowing_types(state):
        raise InvalidRequest(
            "the column cannot be narrowed now",
            column=slot.name,
            type=slot.type.hive,
            hint="Only STRING columns are narrowed, one change of types at a time.",
        )
    column_type = _choose_type(_count_misfits(rewriter, state, slot, NUMBERS), slot, target)
    parameter = json.dumps({"types": {str(slot.index): column_type.hive}, "version": state.version + 1})
    return rewriter.table.alter(state, parameters={NARROWING: parameter})


def advance_narrowing(
    rewriter: Rewriter, state: TableState, *, hours_max: int
) -> tuple[TableState, int, KeyPath | None]:
    """Rewrite up to ``hours_max`` hours and change the type when none is left.

    Returns the state, the number of hours left, and the key whose column has become numeric, if one has.
    """
    types = narrowing_types(state)
    if not types:
        return state, 0, None
    # 3. Rewrite older hours.
    if hours_left := _rewrite_older(rewriter, state, NARROWING, "rewritten for a narrower type", hours_max):
        return state, hours_left, None
    # 4. Change the type if all values fit.
    ((index, column_type),) = types.items()
    slot = state.layout.slots[index]
    state = rewriter.lease.hold()
    if _count_misfits(rewriter, state, slot, [column_type])[column_type]:
        return rewriter.table.alter(state, parameters={NARROWING: None}), 0, None
    failpoint("flat.narrow")
    altered = rewriter.table.alter(
        state,
        _narrow(state.layout, index, column_type),
        parameters=_mark_numbers(rewriter, state),
        narrowed=[index],
    )
    failpoint("flat.narrowed")
    return altered, 0, slot.key


def _mark_numbers(rewriter: Rewriter, state: TableState) -> dict[str, str | None]:
    until_s = round(rewriter.clock() + rewriter.settings.sealing.old_files_s)
    marked = {"slots": sorted(textual_slots(state)), "until_s": until_s, "narrowed": True}
    return {NARROWING: None, PROMOTED: json.dumps(marked)}


def _narrow(layout: Layout, index: int, column_type: ColumnType) -> Layout:
    slot = replace(layout.slots[index], type=column_type)
    return replace(layout.with_slot(slot), version=layout.version + 1)


def _choose_type(misfits: dict[ColumnType, int], slot: Slot, target: ColumnType | None) -> ColumnType:
    fitting = [each for each in NUMBERS if not misfits[each] and target in {None, each}]
    if fitting:
        return fitting[0]
    widest = ColumnType.DOUBLE if target is None else target
    raise InvalidRequest(
        "the column contains values that do not fit",
        column=slot.name,
        type=widest.hive,
        misfits=misfits[widest],
        hint="Wait until their hours are dropped. Numbers written as 7.0 in a column that was DOUBLE need "
        "a backfill first.",
    )


def _count_misfits(
    rewriter: Rewriter, state: TableState, slot: Slot, types: Sequence[ColumnType]
) -> dict[ColumnType, int]:
    """Return for each type the number of values in all hours that it cannot hold. Reads one column of every
    file.
    """
    files = [
        path
        for each in rewriter.table.partitions()
        for path in rewriter.sampler.list_files(str(each.location))
    ]
    if not files:
        return dict.fromkeys(types, 0)
    name = quote(slot.name)
    counts = [
        f"count_if({name} IS NOT NULL AND ({read_number(name, each)}) IS NULL) AS {each.hive}"
        for each in types
    ]
    row = rewriter.read(files, state.layout).selectExpr(*counts).collect()[0]
    return {each: int(row[each.hive]) for each in types}


def _rewrite_older(rewriter: Rewriter, state: TableState, change: str, activity: str, hours_max: int) -> int:
    """Rewrite up to ``hours_max`` hours with files from before the ``change``; return how many are left."""
    waiting = find_pending(state, rewriter.table.partitions(), change)
    for done, partition in enumerate(waiting[:hours_max], 1):
        rewriter.rewrite(partition, state, sealed=partition.is_sealed)
        rewriter.report(activity, partition.hour, done, len(waiting))
    return max(0, len(waiting) - hours_max)


def find_pending(
    state: TableState, partitions: Sequence[HourPartition], change: str = PROMOTION
) -> list[HourPartition]:
    """Return the hours whose files are from before the change that the table parameter ``change`` records."""
    text = state.parameters.get(change)
    if not text:
        return []
    since = int(json.loads(text)["version"])
    return [each for each in partitions if int(each.parameters.get(LAYOUT_VERSION, 0)) < since]
