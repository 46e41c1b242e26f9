"""Schema evolution: derives the columns of a batch from requested keys, observed values and the partitions'
contents.

``state.columns.evolution`` decides. This module gathers its inputs and applies its outcome to the metastore
by compare-and-set.

Before the driver gives a slot to another key, it checks that no retained file has a value in the slot,
because Hive would show that value under the new name. The counts in the partition parameters suggest empty
slots; the statistics in the files prove that they are empty.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from handlers.failpoints import failpoint
from state.columns.changes import Change, ChangeKind, Evolution, RetainedValues
from state.columns.counts.observations import HourCounts, KeyWindow
from state.columns.counts.promotion import announce, encode_announced, find_due, parse_announced
from state.columns.demand import Demand, compute_demand
from state.columns.evolution import decide
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.slots import HOUR_S, Layout, Slot, SlotState
from state.errors import BadInput
from state.value_text import count_text
from streaming.batch.calendar import make_calendar
from streaming.batch.key_demand import RequestedKeys
from streaming.split.file_columns import narrowing_types, promoting_slots
from streaming.table.flat_table import FlatTable, HourPartition, TableState
from streaming.table.parameters import ANNOUNCED, FLAT_BYTES, PROMOTION, RAW_BYTES, ROWS, VALUES
from streaming.table.value_counts import parse_counts


KEYS_SHOWN_MAX: Final = 5_000
"""Keys in a snapshot at most."""


class FileInspector(Protocol):
    """Inspects the files of partitions."""

    def find_filled(self, partitions: Sequence[HourPartition], slots: Collection[int]) -> frozenset[int]:
        """Return which of ``slots`` hold a value in some file of ``partitions``."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed changes and the demand from which they follow, for ``plan``, the page and the log."""

    demand: Demand
    evolution: Evolution

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes that alter the table, or begin to alter it."""
        return tuple(change for change in self.evolution.changes if change.kind is not ChangeKind.WAIT)

    def document(
        self, state: TableState, counts: HourCounts, partitions: Sequence[HourPartition]
    ) -> dict[str, object]:
        """Return the snapshot of the table for users: columns, fill rates, and the reason for each key
        without a column.
        """
        window = counts.window()
        decisions = (self.demand.decisions or {}).values()
        return {
            "columns": [_describe_column(slot, window) for slot in state.layout.slots],
            "partitions": len(partitions),
            "sealed": sum(each.is_sealed for each in partitions),
            "sealed_raw_bytes": _sum_bytes(partitions, RAW_BYTES, sealed=True),
            "hours": [partitions[0].hour, partitions[-1].hour] if partitions else None,
            "calendar": make_calendar(partitions),
            "trailing": sum(each.trailing for each in counts.hours.values()),
            "rows": sum(int(each.parameters.get(ROWS, 0)) for each in partitions),
            "raw_bytes": _sum_bytes(partitions, RAW_BYTES),
            "flat_bytes": _sum_bytes(partitions, FLAT_BYTES, sealed=True),
            "keys": [
                {
                    "key": each.key.text,
                    "verdict": each.verdict.value,
                    "reason": each.reason,
                    "rank": each.rank,
                }
                for each in sorted(decisions, key=lambda each: each.key)[:KEYS_SHOWN_MAX]
            ],
            "waiting": [
                {"key": str(change.key), "kind": change.kind.value, "reason": change.reason}
                for change in self.evolution.of(ChangeKind.WAIT, ChangeKind.PROMOTE)[:KEYS_SHOWN_MAX]
            ],
        }


def find_keys_without_column(requested: RequestedKeys, state: TableState) -> list[KeyPath]:
    """Return the requested keys that have no column, for which a sample has to be searched."""
    live = {slot.key for slot in state.layout.slots if slot.state is SlotState.LIVE}
    keys = {
        each.key for each in requested.keys if not requested.rules.skips(each.key)
    } | requested.rules.whitelist
    return sorted(keys - live)


def propose(
    state: TableState,
    requested: RequestedKeys,
    counts: HourCounts,
    retained: RetainedValues,
    current_hour: int,
) -> Proposal:
    """Return the changes for a table whose partitions hold ``retained`` values. Changes nothing."""
    window = counts.window()
    fills = {key: each.total.fill_rate for key, each in window.items()} if counts.hours else None
    live = {slot.key for slot in state.layout.live if slot.key is not None}
    examined = {key: each.total.rows for key, each in window.items()}
    demand = compute_demand(requested.keys, requested.rules, fills, live, examined)
    evolution = decide(
        state.layout, demand, window, retained, current_hour, requested.rules, state.columns.names
    )
    return Proposal(demand, _describe_delays(evolution, state, requested.rules))


def current_hour(counts: HourCounts, reached_s: int | None) -> int:
    """Return the current hour of the stream: the watermark's hour or, before the first watermark, the newest
    hour with a value.

    Hours of rows without a value do not count. A text that is not JSON belongs to its arrival hour, which may
    be days after the events around it.
    """
    if reached_s is not None:
        return reached_s - reached_s % HOUR_S
    valued = [
        hour
        for hour, observations in counts.hours.items()
        if any(each.values for each in observations.keys.values())
    ]
    return max(valued or counts.hours, default=0)


def propose_proven(
    propose_for: Callable[[RetainedValues], Proposal],
    partitions: Sequence[HourPartition],
    files: FileInspector,
) -> Proposal:
    """Return a proposal that reuses only slots that are empty in every retained file.

    ``propose_for`` makes a proposal from the retained values. If the files show that a slot to be reused
    holds a value, the counts were wrong. The function then makes the proposal again without this slot, so
    that the other changes need not wait.
    """
    retained = read_retained(partitions)
    while True:
        proposal = propose_for(retained)
        reused = _reused_slots(proposal.evolution)
        filled = files.find_filled(partitions, reused) if reused else frozenset()
        if not filled:
            return proposal
        assert not filled <= retained.filled, "a slot that contains a value must not be reused"
        retained = replace(retained, filled=retained.filled | filled)


def select_widening(proposal: Proposal, layout: Layout) -> Proposal | None:
    """Return the proposal reduced to numeric columns of ``layout`` that get a wider numeric type; None if
    there are none.
    """
    widened = tuple(
        change
        for change in proposal.evolution.of(ChangeKind.WIDEN)
        if change.index is not None and change.type is not None and change.type.is_numeric
    )
    if not widened:
        return None
    for change in widened:
        assert change.index is not None
        assert change.type is not None
        layout = layout.with_slot(replace(layout.slots[change.index], type=change.type))
    return Proposal(proposal.demand, Evolution(replace(layout, version=layout.version + 1), widened))


def evolve(table: FlatTable, state: TableState, evolution: Evolution) -> TableState:
    """Alter the table as proposed by ``propose_proven``. Raises Conflict if another writer altered it in the
    meantime.
    """
    if not evolution.alters:
        return state
    failpoint("flat.evolve")
    altered = table.alter(state, evolution.layout, proven=_reused_slots(evolution))
    failpoint("flat.evolved")
    return altered


def begin_promotion(table: FlatTable, state: TableState, evolution: Evolution) -> TableState:
    """Begin the proposed promotions to STRING and return the new state.

    Step 1 of ``streaming.upkeep.type_changes``. Only one promotion runs at a time; further slots wait for the
    next one.
    """
    slots = sorted({change.index for change in evolution.of(ChangeKind.PROMOTE) if change.index is not None})
    if not slots or promoting_slots(state) or narrowing_types(state):
        return state
    parameter = json.dumps({"slots": slots, "version": state.version + 1})
    altered = table.alter(state, parameters={PROMOTION: parameter})
    failpoint("flat.promoting")
    return altered


def announce_promotions(
    table: FlatTable, state: TableState, evolution: Evolution, rules: FlatRules, now_s: int
) -> TableState:
    """Begin the proposed promotions that were announced long enough, announce the others, and return the new
    state.

    A user requested a promotion by a pin, so it is not delayed.
    """
    proposed = {
        change.index: change for change in evolution.of(ChangeKind.PROMOTE) if change.index is not None
    }
    recorded = parse_announced(state.parameters.get(ANNOUNCED))
    announced = announce(recorded, proposed, now_s)
    due = find_due(announced, rules.promotion_delay_hours, now_s)
    begun = [change for slot, change in proposed.items() if slot in due or change.key in rules.pins]
    state = begin_promotion(table, state, Evolution(evolution.layout, tuple(begun)))
    not_begun = {slot: since_s for slot, since_s in announced.items() if slot not in promoting_slots(state)}
    if not_begun == recorded:
        return state
    return table.alter(state, parameters={ANNOUNCED: encode_announced(not_begun)})


def _describe_delays(evolution: Evolution, state: TableState, rules: FlatRules) -> Evolution:
    """Add to the reason of each promotion the time at which it begins."""
    announced = parse_announced(state.parameters.get(ANNOUNCED))
    changes = [
        replace(change, reason=f"{change.reason}; {_describe_delay(change, announced, state, rules)}")
        if change.kind is ChangeKind.PROMOTE
        else change
        for change in evolution.changes
    ]
    return replace(evolution, changes=tuple(changes))


def _describe_delay(change: Change, announced: Mapping[int, int], state: TableState, rules: FlatRules) -> str:
    assert change.index is not None, change
    if change.index in promoting_slots(state):
        return "in progress"
    if change.key in rules.pins:
        return "begins with the next batch"
    condition = f"unless the key is pinned to {state.layout.slots[change.index].type.hive}"
    since_s = announced.get(change.index)
    if since_s is None:
        return f"begins {count_text(rules.promotion_delay_hours, 'hour')} after the next batch, {condition}"
    begins_s = since_s + rules.promotion_delay_hours * HOUR_S
    return f"begins at {time.strftime('%Y-%m-%d %H:%M', time.gmtime(begins_s))} UTC, {condition}"


def _reused_slots(evolution: Evolution) -> frozenset[int]:
    return frozenset(change.index for change in evolution.of(ChangeKind.REUSE) if change.index is not None)


def read_retained(partitions: Sequence[HourPartition]) -> RetainedValues:
    """Return the values that partitions hold, according to their parameters."""
    return RetainedValues.of(_read_counts(partition) for partition in partitions)


def _describe_column(slot: Slot, window: Mapping[KeyPath, KeyWindow]) -> dict[str, object]:
    key_window = window.get(slot.key) if slot.key is not None else None
    return {
        "index": slot.index,
        "name": slot.name,
        "key": None if slot.key is None else slot.key.text,
        "type": slot.type.hive,
        "state": slot.state.value,
        "first_seen_hour": slot.first_seen_hour,
        "last_seen_hour": slot.last_seen_hour,
        "fill": None if key_window is None else round(key_window.fill_rate, 6),
        "misfits": 0 if key_window is None else key_window.total.misfits,
        "former": slot.former_name,
    }


def _sum_bytes(partitions: Sequence[HourPartition], name: str, *, sealed: bool = False) -> int:
    """Return the sum of a size parameter. Only sealed hours store the size of their files."""
    counted = (each for each in partitions if not sealed or each.is_sealed)
    return sum(int(each.parameters.get(name, 0)) for each in counted)


def _read_counts(partition: HourPartition) -> dict[int, int] | None:
    text = partition.parameters.get(VALUES)
    if text is None:
        return None
    try:
        return dict(enumerate(parse_counts(text)))
    except BadInput:
        return None
