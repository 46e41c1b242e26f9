"""From a proposal to the table: a reused slot is proven to be empty, and other changes do not wait for the
proof."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.changes import Change, ChangeKind, Evolution, RetainedValues
from state.columns.counts.observations import HourCounts, KeyCounts, Observations
from state.columns.demand import Demand
from state.columns.paths import KeyPath
from state.columns.slots import Layout
from state.columns.types import ColumnType
from streaming.batch.schema_evolution import Proposal, current_hour, propose_proven, select_widening
from streaming.table.flat_table import HourPartition
from tests.builders.flat.columns import a_layout, a_slot


NEW, OTHER = KeyPath(("new",)), KeyPath(("other",))


class LookedAt:
    """Files that hold values in some slots; remembers which slots were inspected."""

    def __init__(self, *slots: int) -> None:
        self._slots = frozenset(slots)
        self.asked: list[set[int]] = []

    def find_filled(self, partitions: Sequence[HourPartition], slots: Collection[int]) -> frozenset[int]:
        assert not partitions
        self.asked.append(set(slots))
        return self._slots & frozenset(slots)


def decided(*free: int, appends: bool = True) -> Callable[[RetainedValues], Proposal]:
    """Return a function that gives NEW the first of ``free`` slots not known to hold a value, and appends
    OTHER."""

    def decide(held: RetainedValues) -> Proposal:
        slot = next((index for index in free if held.is_empty(index)), None)
        changes = [Change(ChangeKind.APPEND, "asked for", OTHER, 9)] if appends else []
        if slot is not None:
            changes.append(Change(ChangeKind.REUSE, "asked for", NEW, slot))
        else:
            changes.append(Change(ChangeKind.WAIT, "no slot is free", NEW))
        return Proposal(Demand(), Evolution(Layout.new(), tuple(changes)))

    return decide


def kinds(found: Proposal) -> list[tuple[ChangeKind, int | None]]:
    return [(change.kind, change.index) for change in found.evolution.changes]


def test_a_slot_with_wrong_counts_is_not_reused_and_the_other_changes_are_made() -> None:
    files = LookedAt(3)
    found = propose_proven(decided(3), [], files)
    assert kinds(found) == [(ChangeKind.APPEND, 9), (ChangeKind.WAIT, None)]
    assert files.asked == [{3}]


def test_the_next_slot_is_proven_as_well() -> None:
    files = LookedAt(3, 4)
    found = propose_proven(decided(3, 4, 5), [], files)
    assert kinds(found) == [(ChangeKind.APPEND, 9), (ChangeKind.REUSE, 5)]
    assert files.asked == [{3}, {4}, {5}]


def test_files_are_not_inspected_without_a_slot_to_reuse() -> None:
    files = LookedAt(3)
    assert kinds(propose_proven(decided(), [], files)) == [(ChangeKind.APPEND, 9), (ChangeKind.WAIT, None)]
    assert files.asked == []


def test_reusing_a_slot_that_holds_a_value_is_a_defect() -> None:
    stubborn = Proposal(Demand(), Evolution(Layout.new(), (Change(ChangeKind.REUSE, "", NEW, 3),)))
    with pytest.raises(AssertionError, match="must not be reused"):
        propose_proven(lambda _: stubborn, [], LookedAt(3))


@given(st.lists(st.integers(1, 8), unique=True), st.sets(st.integers(1, 8)))
def test_the_first_slot_that_is_really_empty_is_reused(free: list[int], filled: set[int]) -> None:
    found = propose_proven(decided(*free, appends=False), [], LookedAt(*filled))
    right = next((index for index in free if index not in filled), None)
    assert kinds(found) == [(ChangeKind.WAIT if right is None else ChangeKind.REUSE, right)]


def rows_with(values: int) -> Observations:
    return Observations(10, 0, {NEW: KeyCounts(10, values)})


def test_the_current_hour_is_the_watermarks_hour() -> None:
    assert current_hour(HourCounts({3_600 * 9: rows_with(1)}), 3_600 * 7 + 59) == 3_600 * 7


def test_before_the_first_watermark_rows_without_values_do_not_determine_the_current_hour() -> None:
    events, broken = 3_600 * 5, 3_600 * 40
    assert current_hour(HourCounts({events: rows_with(3), broken: rows_with(0)}), None) == events
    assert current_hour(HourCounts({broken: rows_with(0)}), None) == broken
    assert current_hour(HourCounts(), None) == 0


def test_only_wider_numbers_are_adopted_while_a_batch_is_staged() -> None:
    layout = a_layout(a_slot(1, "n", ColumnType.TINYINT), a_slot(2, "s", ColumnType.INT))
    changes = (
        Change(ChangeKind.APPEND, "asked for", OTHER, 9, ColumnType.INT),
        Change(ChangeKind.WIDEN, "too narrow", NEW, 1, ColumnType.INT),
        Change(ChangeKind.WIDEN, "no files", NEW, 2, ColumnType.STRING),
    )
    proposal = Proposal(Demand(), Evolution(Layout.new(), changes))
    found = select_widening(proposal, layout)
    assert found is not None
    assert [slot.type for slot in found.evolution.layout.slots[1:]] == [ColumnType.INT, ColumnType.INT]
    assert (found.evolution.layout.version, found.changes) == (layout.version + 1, changes[1:2])
    assert select_widening(Proposal(Demand(), Evolution(Layout.new(), changes[:1])), layout) is None
