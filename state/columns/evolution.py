"""Evolution of a flat table:
computes the next layout from the current one, the query demand and the observed values.

Every change carries its reason. The rules (json-splitting.md §3.4, §3.5, §3.6 and §6, flat-tables-hive4.md
§0, §1 and §2):

* New slots go to the end, and no slot moves. A key has one slot, and gets that slot back when queries request
  it again.
* An empty slot may take another key under three conditions. It has been empty for longer than partitions
  exist. No retained partition holds a value in it: Hive reads by position, and would show old values under
  the new name. The metastore accepts the change of type.
* Types only widen (``changes``). A change that needs a rewrite is a task for the caller;
  ``promote_to_string`` returns the layout after it.
* A new column has the type that most of its values need (``changes``). A few strays do not make it STRING,
  even if its key is whitelisted and cannot wait.
* A key with numbers waits for a thousand values or a full hour. A key without numbers becomes STRING, cannot
  get wider and does not wait.
* A key without values never gets a column.

``decide`` is a pure function: the same input gives the same output, and a second decision on its own output
changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from state.columns.changes import (
    TASKS,
    Change,
    ChangeKind,
    Evolution,
    RetainedValues,
    choose_new_type,
    decide_type_change,
    is_mostly_numbers,
)
from state.columns.counts.observations import KeyWindow
from state.columns.demand import Demand
from state.columns.names import choose_column_name
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.slots import HOUR_S, SLOTS_MAX, Layout, Slot, SlotState
from state.columns.types import ColumnType, choose_reused_type, metastore_accepts
from state.value_text import count_text


def decide(
    layout: Layout,
    demand: Demand,
    window: Mapping[KeyPath, KeyWindow],
    retained: RetainedValues,
    now_hour: int,
    rules: FlatRules,
    partition_keys: Collection[str] = (),
) -> Evolution:
    """Decide the next layout.

    ``window`` holds the observations of the retained window (``HourCounts.window``). ``now_hour`` is the
    current hour, in seconds since 1970. An empty demand retires nothing: an empty key log more likely means a
    lost log than users without queries.
    """
    selected = [each.key for each in demand.selected]
    step = _Step(layout, window, retained, now_hour, rules, partition_keys)
    step.reserve(selected)
    if selected:
        step.retire(frozenset(selected))
    for key in selected:
        step.settle(key)
    return step.finish()


def promote_to_string(layout: Layout, index: int) -> Layout:
    """Return ``layout`` with that slot as STRING. No retained file may still hold values of another type
    in the slot.
    """
    slot = replace(layout.slots[index], type=ColumnType.STRING)
    return replace(layout.with_slot(slot), version=layout.version + 1)


class _Step:
    """One decision in progress."""

    def __init__(
        self,
        layout: Layout,
        seen: Mapping[KeyPath, KeyWindow],
        retained: RetainedValues,
        now_hour: int,
        rules: FlatRules,
        partition_keys: Collection[str],
    ) -> None:
        self._before = layout
        self._layout = layout
        self._seen = seen
        self._retained = retained
        self._now_hour = now_hour
        self._rules = rules
        self._partition_keys = partition_keys
        self._changes: list[Change] = []
        self._slots = {slot.key: slot for slot in layout.slots if slot.key is not None}
        self._freshness = _Freshness(seen, now_hour, rules)
        self._free = [
            slot
            for slot in layout.slots
            if self._freshness.is_long_empty(slot) and retained.is_empty(slot.index)
        ]

    def reserve(self, selected: Collection[KeyPath]) -> None:
        """Reserve the empty slots of selected keys; no other key takes them."""
        self._free = [slot for slot in self._free if slot.key not in selected]

    def retire(self, selected: Collection[KeyPath]) -> None:
        """Empty the slots whose keys are not selected, or had no value for longer than partitions exist."""
        for slot in self._layout.live:
            assert slot.key is not None, slot
            if slot.key not in selected:
                self._retire(slot, "no longer requested")
            elif self._freshness.is_silent(slot):
                self._retire(slot, f"no row has contained it for {count_text(self._rules.empty_days, 'day')}")

    def settle(self, key: KeyPath) -> None:
        """Give a selected key a slot of the type that it needs."""
        slot = self._slots.get(key)
        if slot is None:
            self._place(key)
        elif slot.state is SlotState.LIVE:
            self._widen(slot)
        elif not self._freshness.is_silent(slot):
            self._put(ChangeKind.REVIVE, replace(slot, state=SlotState.LIVE), "requested again")
            self._widen(self._slots[key])
        else:
            self._wait(key, "no recent row contains it", slot)

    def finish(self) -> Evolution:
        """Return the result. Refreshes the last-seen hours if anything else changes, or if they are stale."""
        alters = any(change.kind not in TASKS for change in self._changes)
        refreshed = {slot.index: self._freshness.refresh(slot) for slot in self._layout.slots}
        stale = [slot for slot in self._layout.live if self._freshness.is_stale(slot)]
        if stale and not alters:
            reason = f"{count_text(len(stale), 'column')} had values recently"
            self._changes.append(Change(ChangeKind.REFRESH, reason))
        if not (stale or alters):
            return Evolution(self._before, tuple(self._changes))
        slots = tuple(refreshed[slot.index] for slot in self._layout.slots)
        return Evolution(Layout(self._before.version + 1, slots), tuple(self._changes))

    def _place(self, key: KeyPath) -> None:
        window = self._seen.get(key)
        needed = ColumnType.NULL if window is None else choose_new_type(key, window, self._rules)
        if window is None or needed is ColumnType.NULL:
            self._wait(key, "no row contains it")
        elif not self._is_proven(key, needed, window):
            self._wait(key, f"{needed.hive} so far, after {count_text(window.total.values, 'value')}")
        elif (free := self._best_free(needed, is_pinned=key in self._rules.pins)) is not None:
            self._free = [each for each in self._free if each.index != free.index]
            slot = self._slot(free.index, key, choose_reused_type(free.type, needed), free.name)
            self._put(ChangeKind.REUSE, slot, f"requested; the slot of {free.key} has been empty long enough")
        elif len(self._layout.slots) < SLOTS_MAX:
            slot = self._slot(len(self._layout.slots), key, needed, None)
            self._put(
                ChangeKind.APPEND, slot, f"requested; {count_text(window.total.values, 'value')} observed"
            )
        else:
            self._wait(key, f"all {SLOTS_MAX} slots are taken")

    def _slot(self, index: int, key: KeyPath, needed: ColumnType, former_name: str | None) -> Slot:
        name = choose_column_name(key, self._layout.names.union(self._partition_keys))
        return Slot(index, name, key, needed, self._now_hour, self._now_hour, SlotState.LIVE, former_name)

    def _is_proven(self, key: KeyPath, needed: ColumnType, window: KeyWindow) -> bool:
        is_text = needed is ColumnType.STRING and not is_mostly_numbers(key, window, self._rules)
        if is_text or key in self._rules.pins or key in self._rules.whitelist:
            return True
        has_full_hour = self._now_hour - window.first_hour >= 2 * HOUR_S
        return has_full_hour or window.total.values >= self._rules.probation_values

    def _best_free(self, needed: ColumnType, *, is_pinned: bool) -> Slot | None:
        """Return the free slot with the closest type. Accepts a wider integer type unless the key's type is
        pinned.
        """
        reused = [(slot, choose_reused_type(slot.type, needed)) for slot in self._free]
        fitting = [
            slot
            for slot, new in reused
            if metastore_accepts(slot.type, new) and (new is needed or not is_pinned)
        ]
        return min(fitting, key=lambda slot: (slot.type is not needed, slot.type, slot.index), default=None)

    def _widen(self, slot: Slot) -> None:
        assert slot.key is not None, slot
        window = self._seen.get(slot.key)
        change = None if window is None else decide_type_change(slot, window, self._retained, self._rules)
        if change is None:
            return
        if change.kind is ChangeKind.WIDEN:
            assert change.type is not None, change
            self._take(replace(slot, type=change.type))
        self._changes.append(change)

    def _retire(self, slot: Slot, reason: str) -> None:
        self._put(ChangeKind.RETIRE, replace(self._freshness.refresh(slot), state=SlotState.EMPTY), reason)

    def _put(self, kind: ChangeKind, slot: Slot, reason: str) -> None:
        self._take(slot)
        self._changes.append(Change(kind, reason, slot.key, slot.index, slot.type))

    def _take(self, slot: Slot) -> None:
        assert slot.key is not None, slot
        self._layout = self._layout.with_slot(slot)
        self._slots[slot.key] = slot

    def _wait(self, key: KeyPath, reason: str, slot: Slot | None = None) -> None:
        index = None if slot is None else slot.index
        self._changes.append(Change(ChangeKind.WAIT, reason, key, index))


@dataclass(frozen=True, slots=True)
class _Freshness:
    """The hours in which slots last had a value: decides whether a slot is silent, and whether its recorded
    hours are old enough to justify an alteration of the table.

    The last hour with a value combines the hour recorded in the layout and the observed ones. Neither
    suffices alone: the hour counts may be lost or trimmed, and the layout changes only now and then.
    """

    seen: Mapping[KeyPath, KeyWindow]
    now_hour: int
    rules: FlatRules

    def is_silent(self, slot: Slot) -> bool:
        """Whether the slot's key has had no value for longer than ``empty_days``;
        never true for a whitelisted key.
        """
        return self._is_old(self._last_hour(slot)) and slot.key not in self.rules.whitelist

    def is_long_empty(self, slot: Slot) -> bool:
        """Whether the slot is empty, and its recorded last value is older than ``empty_days``."""
        return slot.state is SlotState.EMPTY and self._is_old(slot.last_seen_hour)

    def refresh(self, slot: Slot) -> Slot:
        """Return the slot with up-to-date hours if it is live, unchanged otherwise."""
        if slot.state is not SlotState.LIVE:
            return slot
        last_hour = self._last_hour(slot)
        first_hour = last_hour if slot.first_seen_hour is None else slot.first_seen_hour
        return replace(slot, first_seen_hour=first_hour, last_seen_hour=last_hour)

    def is_stale(self, slot: Slot) -> bool:
        """Whether the slot's recorded hours are so old that they alone justify an alteration of the table."""
        last_hour = self.refresh(slot).last_seen_hour
        if slot.last_seen_hour is None or last_hour is None:
            return last_hour is not slot.last_seen_hour
        return last_hour - slot.last_seen_hour >= self.rules.refresh_hours * HOUR_S

    def _last_hour(self, slot: Slot) -> int | None:
        """Return the last hour with a value. An hour in the future counts as now;
        otherwise its slot would never become free.
        """
        assert slot.key is not None, slot
        window = self.seen.get(slot.key)
        hours = [slot.last_seen_hour, None if window is None else min(window.last_hour, self.now_hour)]
        return max((hour for hour in hours if hour is not None), default=None)

    def _is_old(self, hour: int | None) -> bool:
        return hour is None or hour < self.now_hour - self.rules.empty_days * 24 * HOUR_S
