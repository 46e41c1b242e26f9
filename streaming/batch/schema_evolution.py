"""The table before a batch: what people ask, what was seen and what partitions hold become the layout of the batch.

The decision is ``state.columns.evolution``; here its inputs are gathered and its outcome is put into the metastore, by
compare-and-set. A slot is given to another key only after every retained file was looked at: the counts in partition
parameters say where to expect nothing, the files' own statistics prove it, because Hive would show what is left under the new
name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from handlers.failpoints import failpoint
from state.columns.changes import ChangeKind, Evolution, RetainedValues
from state.columns.demand import compute_demand
from state.columns.evolution import decide
from state.columns.slots import HOUR_S, SlotState
from state.errors import BadInput
from streaming.split.file_columns import textual_slots
from streaming.table.parameters import FLAT_BYTES, PROMOTION, RAW_BYTES, ROWS, VALUES
from streaming.table.value_counts import parse_counts


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from state.columns.changes import Change
    from state.columns.demand import Demand
    from state.columns.observations import HourCounts, KeyWindow
    from state.columns.paths import KeyPath
    from state.columns.slots import Slot
    from streaming.batch.key_demand import RequestedKeys
    from streaming.table.flat_table import FlatTable, HourPartition, TableState


KEYS_SHOWN_MAX: Final = 5_000


class FileInspector(Protocol):
    """Who can look into the files of partitions."""

    def find_filled(self, partitions: Sequence[HourPartition], slots: Collection[int]) -> frozenset[int]:
        """Return which of ``slots`` hold a value in some file of ``partitions``."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A decision with what it came from, for ``plan``, the page and the log."""

    demand: Demand
    evolution: Evolution

    @property
    def made(self) -> tuple[Change, ...]:
        """The changes that alter something, or set out to."""
        return tuple(change for change in self.evolution.changes if change.kind is not ChangeKind.WAIT)

    def document(
        self, state: TableState, book: HourCounts, partitions: Sequence[HourPartition]
    ) -> dict[str, object]:
        """Return what people see of the table: its columns, how they are filled, and why other keys are none."""
        window = book.window()
        whys = (self.demand.decisions or {}).values()
        return {
            "columns": [_column(slot, window) for slot in state.layout.slots],
            "partitions": len(partitions),
            "sealed": sum(each.is_sealed for each in partitions),
            "sealed_raw_bytes": _bytes(partitions, RAW_BYTES, sealed=True),
            "hours": [partitions[0].hour, partitions[-1].hour] if partitions else None,
            "rows": sum(int(each.parameters.get(ROWS, 0)) for each in partitions),
            "raw_bytes": _bytes(partitions, RAW_BYTES),
            "flat_bytes": _bytes(partitions, FLAT_BYTES, sealed=True),
            "keys": [
                {"key": why.key.text, "verdict": why.verdict.value, "reason": why.reason, "rank": why.rank}
                for why in sorted(whys, key=lambda why: why.key)[:KEYS_SHOWN_MAX]
            ],
            "waiting": [
                {"key": str(change.key), "kind": change.kind.value, "reason": change.reason}
                for change in self.evolution.of(ChangeKind.WAIT, ChangeKind.PROMOTE)[:KEYS_SHOWN_MAX]
            ],
        }


def find_keys_without_column(questions: RequestedKeys, state: TableState) -> list[KeyPath]:
    """Return the keys that are asked for and have no column: those that a sample has to be searched for."""
    live = {slot.key for slot in state.layout.slots if slot.state is SlotState.LIVE}
    keys = {
        each.key for each in questions.asked if not questions.rules.skips(each.key)
    } | questions.rules.whitelist
    return sorted(keys - live)


def propose(
    state: TableState,
    questions: RequestedKeys,
    book: HourCounts,
    held: RetainedValues,
    current_hour: int,
) -> Proposal:
    """Return what would become of the table, whose partitions hold ``held``. Changes nothing."""
    window = book.window()
    fills = {key: each.total.fill for key, each in window.items()} if book.hours else None
    live = {slot.key for slot in state.layout.live if slot.key is not None}
    demand = compute_demand(questions.asked, questions.rules, fills, live)
    evolution = decide(state.layout, demand, window, held, current_hour, questions.rules, state.columns.names)
    return Proposal(demand, evolution)


def current_hour(book: HourCounts, reached_s: int | None) -> int:
    """Return the hour that is being written: the watermark's, or before there is one the newest that brought a value.

    Rows without a value are no measure: a text that is no JSON belongs to the hour in which it came, which may be days after
    the events around it.
    """
    if reached_s is not None:
        return reached_s - reached_s % HOUR_S
    valued = [hour for hour, seen in book.hours.items() if any(each.values for each in seen.keys.values())]
    return max(valued or book.hours, default=0)


def propose_proven(
    decided: Callable[[RetainedValues], Proposal], partitions: Sequence[HourPartition], files: FileInspector
) -> Proposal:
    """Return a decision that uses only those slots again of which every retained file says that they are empty.

    ``decided`` decides by what partitions hold. Where a slot holds a value after all, the counts were wrong, and it is decided
    again with that known: the other changes do not wait for such a slot.
    """
    held = read_retained(partitions)
    while True:
        found = decided(held)
        reused = _reused(found.evolution)
        filled = files.find_filled(partitions, reused) if reused else frozenset()
        if not filled:
            return found
        assert not filled <= held.filled, "a slot that is known to hold a value is not used again"
        held = replace(held, filled=held.filled | filled)


def evolve(table: FlatTable, state: TableState, evolution: Evolution) -> TableState:
    """Alter the table as decided (``propose_proven``) and return it; Conflict where somebody else altered it meanwhile."""
    if not evolution.alters:
        return state
    failpoint("flat.evolve")
    altered = table.alter(state, evolution.layout, proven=_reused(evolution))
    failpoint("flat.evolved")
    return altered


def begin_promotion(table: FlatTable, state: TableState, evolution: Evolution) -> TableState:
    """Start what the decision asks for, one generation of slots at a time; the state as it then is."""
    slots = sorted({change.index for change in evolution.of(ChangeKind.PROMOTE) if change.index is not None})
    if not slots or textual_slots(state):
        return state
    parameter = json.dumps({"slots": slots, "version": state.version + 1})
    altered = table.alter(state, parameters={PROMOTION: parameter})
    failpoint("flat.hardening")
    return altered


def _reused(evolution: Evolution) -> frozenset[int]:
    return frozenset(change.index for change in evolution.of(ChangeKind.REUSE) if change.index is not None)


def read_retained(partitions: Sequence[HourPartition]) -> RetainedValues:
    """Return what partitions hold by their parameters."""
    return RetainedValues.of(_counts(partition) for partition in partitions)


def _column(slot: Slot, window: Mapping[KeyPath, KeyWindow]) -> dict[str, object]:
    seen = window.get(slot.key) if slot.key is not None else None
    return {
        "index": slot.index,
        "name": slot.name,
        "key": None if slot.key is None else slot.key.text,
        "type": slot.type.hive,
        "state": slot.state.value,
        "first_seen_hour": slot.first_seen_hour,
        "last_seen_hour": slot.last_seen_hour,
        "fill": None if seen is None else round(seen.total.fill, 6),
        "misfits": 0 if seen is None else seen.total.misfits,
        "former": slot.former_name,
    }


def _bytes(partitions: Sequence[HourPartition], name: str, *, sealed: bool = False) -> int:
    """Add up a size; only sealed hours know that of their files."""
    counted = (each for each in partitions if not sealed or each.is_sealed)
    return sum(int(each.parameters.get(name, 0)) for each in counted)


def _counts(partition: HourPartition) -> dict[int, int] | None:
    text = partition.parameters.get(VALUES)
    if text is None:
        return None
    try:
        return dict(enumerate(parse_counts(text)))
    except BadInput:
        return None
