"""Narrowing: a STRING column whose values are all numbers becomes numeric again, on request.

A column may have become STRING by values that have left the table since, or by values of a faulty producer. The way back mirrors a
promotion (``streaming.upkeep.promotion``): text that Spark does not filter by is read correctly under both types.

1. All retained values are read, and the narrowest type that writes each of them back as the same text is chosen. If there is none, the
   request is refused with the number of values that do not fit.
2. A table parameter records the slot and its future type. From now on every new file holds the column as marked text.
3. Each older hour is rewritten in this form.
4. All values are read once more, because rows have arrived since. If all fit, the type in the table changes by compare-and-set; otherwise
   the narrowing ends without a change.
5. New files stay marked text for ``sealing.old_files_s``, because queries planned before step 4 may list them. After that new files hold
   numbers, and sealed hours are rewritten with numbers (``sealing.find_outgrown``).

The state is in the parameters of the table, so a crash only interrupts it, and the next maintenance continues.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from state.columns.types import ColumnType
from state.errors import InvalidRequest, NotFound
from streaming.split.file_columns import narrowing_types, promoting_slots, textual_slots
from streaming.split.number_texts import read_number
from streaming.split.parse_schema import quote
from streaming.table.parameters import LAYOUT_VERSION, NARROWING, PROMOTED


if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.columns.paths import KeyPath
    from state.columns.slots.slots import Layout, Slot
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


NUMBERS: Final = (
    ColumnType.TINYINT,
    ColumnType.SMALLINT,
    ColumnType.INT,
    ColumnType.BIGINT,
    ColumnType.DOUBLE,
)


def begin(
    rewriter: Rewriter, state: TableState, key: KeyPath, target: ColumnType | None = None
) -> TableState:
    """Record that the column of ``key`` becomes ``target``, by default the narrowest type that holds all values; return the new state.

    Raises NotFound if the key has no column, and InvalidRequest if the column is not STRING, another change of types is in progress, or
    some value does not fit.
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
    chosen = _choose_type(_count_misfits(rewriter, state, slot, NUMBERS), slot, target)
    parameter = json.dumps({"types": {str(slot.index): chosen.hive}, "version": state.version + 1})
    return rewriter.table.alter(state, parameters={NARROWING: parameter})


def advance(
    rewriter: Rewriter, state: TableState, *, hours_max: int
) -> tuple[TableState, int, KeyPath | None]:
    """Rewrite up to ``hours_max`` hours and change the type when none is left.

    Returns the state, the number of hours left, and the key whose column has become numeric, if one has.
    """
    types = narrowing_types(state)
    if not types:
        return state, 0, None
    # 3. Rewrite older hours.
    waiting = _find_pending(state, rewriter.table.partitions())
    for done, partition in enumerate(waiting[:hours_max], 1):
        rewriter.rewrite(partition, state, sealed=partition.is_sealed)
        rewriter.report("rewritten for a narrower type", partition.hour, done, len(waiting))
    if len(waiting) > hours_max:
        return state, len(waiting) - hours_max, None
    # 4. Change the type if all values fit.
    ((index, column_type),) = types.items()
    slot = state.layout.slots[index]
    state = rewriter.lease.hold()
    if _count_misfits(rewriter, state, slot, [column_type])[column_type]:
        return rewriter.table.alter(state, parameters={NARROWING: None}), 0, None
    failpoint("flat.narrow")
    altered = rewriter.table.alter(
        state,
        _narrowed(state.layout, index, column_type),
        parameters=_changes(rewriter, state),
        narrowed=[index],
    )
    failpoint("flat.narrowed")
    return altered, 0, slot.key


def _changes(rewriter: Rewriter, state: TableState) -> dict[str, str | None]:
    until_s = round(rewriter.clock() + rewriter.settings.sealing.old_files_s)
    marked = {"slots": sorted(textual_slots(state)), "until_s": until_s, "narrowed": True}
    return {NARROWING: None, PROMOTED: json.dumps(marked)}


def _narrowed(layout: Layout, index: int, column_type: ColumnType) -> Layout:
    slot = replace(layout.slots[index], type=column_type)
    return replace(layout.with_slot(slot), version=layout.version + 1)


def _find_pending(state: TableState, partitions: Sequence[HourPartition]) -> list[HourPartition]:
    since = int(json.loads(state.parameters[NARROWING])["version"])
    return [each for each in partitions if int(each.parameters.get(LAYOUT_VERSION, 0)) < since]


def _choose_type(misfits: dict[ColumnType, int], slot: Slot, target: ColumnType | None) -> ColumnType:
    fitting = [each for each in NUMBERS if not misfits[each] and target in {None, each}]
    if fitting:
        return fitting[0]
    asked = ColumnType.DOUBLE if target is None else target
    raise InvalidRequest(
        "the column holds values that do not fit",
        column=slot.name,
        type=asked.hive,
        misfits=misfits[asked],
        hint="Wait until their hours are dropped. Numbers written as 7.0 in a column that was DOUBLE need a backfill first.",
    )


def _count_misfits(
    rewriter: Rewriter, state: TableState, slot: Slot, types: Sequence[ColumnType]
) -> dict[ColumnType, int]:
    """Return, for each type, how many values of all hours it cannot hold. Reads one column of every file."""
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
