"""Single evolution steps: which change follows from which input, and with which reason."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from state.columns import evolution as room
from state.columns.changes import Change, ChangeKind, Evolution, RetainedValues, choose_new_type
from state.columns.counts.observations import DAY_S, HourCounts, KeyCounts, KeyWindow, Observations
from state.columns.demand import compute_demand
from state.columns.evolution import decide, promote_to_string
from state.columns.rules import FlatRules
from state.columns.slots import HOUR_S, Layout, SlotState
from state.columns.sniffing import sniff
from state.columns.types import ColumnType, Evidence, integers
from tests.builders.flat.columns import (
    BOOLEANS,
    FLOATS,
    T0,
    TEXT,
    a_key,
    a_layout,
    a_slot,
    a_window,
    fill_rates,
    requested_by,
    some_hour_counts,
)


LATER = T0 + 61 * DAY_S
"""An hour at which a slot last seen at T0 has been empty for longer than the window."""
NOTHING_KEPT = RetainedValues()
ONE_EMPTY_HOUR = RetainedValues(partitions=1)
EMPTY = SlotState.EMPTY


def decide_twice(
    layout: Layout,
    requested: tuple[str, ...],
    seen: dict[str, KeyWindow],
    retained: RetainedValues = ONE_EMPTY_HOUR,
    now_hour: int = T0,
    rules: FlatRules | None = None,
) -> Evolution:
    windows = {a_key(dotted): window for dotted, window in seen.items()}
    rules = rules or FlatRules()
    demand = compute_demand(map(requested_by, requested), rules)
    evolution = decide(layout, demand, windows, retained, now_hour, rules, ["yyyy_mm_dd", "hh"])
    evolution.layout.check()
    again = decide(evolution.layout, demand, windows, retained, now_hour, rules, ["yyyy_mm_dd", "hh"])
    assert again.layout == evolution.layout
    return evolution


def kinds(evolution: Evolution) -> list[ChangeKind]:
    return [change.kind for change in evolution.changes]


def test_a_key_that_rows_contain_is_appended_and_a_misspelled_one_waits() -> None:
    evolution = decide_twice(Layout.new(), ("name", "nmae"), {"name": a_window(TEXT)})
    assert kinds(evolution) == [ChangeKind.APPEND, ChangeKind.WAIT]
    assert evolution.layout == a_layout(a_slot(1, "name"), version=2)


def test_keys_that_collapse_become_the_column_of_their_object() -> None:
    counts = some_hour_counts([T0], "foo.bar.baz1").join(some_hour_counts([T0], "foo.bar.baz2"))
    demand = compute_demand(
        [requested_by("foo.bar.baz1"), requested_by("foo.bar.baz2")], FlatRules(), fill_rates(counts)
    )
    evolution = decide(Layout.new(), demand, counts.window(), ONE_EMPTY_HOUR, T0, FlatRules())
    assert [slot.name for slot in evolution.layout.live] == ["foo/bar"]


def test_names_of_partition_keys_are_avoided() -> None:
    evolution = decide_twice(Layout.new(), ("hh",), {"hh": a_window(TEXT)})
    assert evolution.layout.slots[1].name == "hh~1"


def test_a_number_waits_for_a_thousand_values_or_a_full_hour() -> None:
    few = {"n": a_window(integers(1, 5), values=999)}
    assert kinds(decide_twice(Layout.new(), ("n",), few)) == [ChangeKind.WAIT]
    assert kinds(decide_twice(Layout.new(), ("n",), few, now_hour=T0 + HOUR_S)) == [ChangeKind.WAIT]
    assert kinds(decide_twice(Layout.new(), ("n",), few, now_hour=T0 + 2 * HOUR_S)) == [ChangeKind.APPEND]
    enough = {"n": a_window(integers(1, 5), values=1_000)}
    assert decide_twice(Layout.new(), ("n",), enough).layout.slots[1].type is ColumnType.TINYINT


@pytest.mark.parametrize(
    "rules",
    [FlatRules(whitelist=frozenset({a_key("n")})), FlatRules(pins={a_key("n"): ColumnType.BIGINT})],
    ids=["whitelisted", "pinned"],
)
def test_whitelisted_and_pinned_keys_do_not_wait(rules: FlatRules) -> None:
    evolution = decide_twice(Layout.new(), ("n",), {"n": a_window(integers(1, 5), values=1)}, rules=rules)
    assert kinds(evolution) == [ChangeKind.APPEND]


def test_true_and_false_are_text_unless_pinned() -> None:
    seen = {"b": a_window(BOOLEANS)}
    assert decide_twice(Layout.new(), ("b",), seen).layout.slots[1].type is ColumnType.STRING
    pinned = FlatRules(pins={a_key("b"): ColumnType.BOOLEAN})
    assert decide_twice(Layout.new(), ("b",), seen, rules=pinned).layout.slots[1].type is ColumnType.BOOLEAN


def test_a_key_that_is_no_longer_requested_is_retired_and_gets_its_slot_back() -> None:
    layout = a_layout(a_slot(1, "a"), a_slot(2, "b"))
    retired = decide_twice(layout, ("b",), {"a": a_window(TEXT), "b": a_window(TEXT)})
    assert retired.changes == (
        Change(ChangeKind.RETIRE, "no longer requested", a_key("a"), 1, ColumnType.STRING),
    )
    assert retired.layout.slots[1].state is EMPTY
    revived = decide_twice(retired.layout, ("b", "a"), {"a": a_window(TEXT), "b": a_window(TEXT)})
    assert kinds(revived) == [ChangeKind.REVIVE]
    assert revived.layout == replace(layout, version=3)


def test_an_empty_key_log_retires_nothing() -> None:
    layout = a_layout(a_slot(1, "a"))
    assert decide_twice(layout, (), {"a": a_window(TEXT)}).layout is layout


def test_a_key_without_values_for_the_window_is_retired_unless_whitelisted() -> None:
    layout = a_layout(a_slot(1, "a"))
    assert kinds(decide_twice(layout, ("a",), {}, now_hour=T0 + 60 * DAY_S)) == []
    assert kinds(decide_twice(layout, ("a",), {}, now_hour=LATER)) == [ChangeKind.RETIRE, ChangeKind.WAIT]
    listed = FlatRules(whitelist=frozenset({a_key("a")}))
    assert kinds(decide_twice(layout, (), {}, now_hour=LATER, rules=listed)) == []


def test_a_slot_that_is_empty_for_longer_than_the_window_takes_another_key() -> None:
    layout = a_layout(a_slot(1, "old", ColumnType.BIGINT, state=EMPTY))
    evolution = decide_twice(layout, ("new",), {"new": a_window(TEXT)}, now_hour=LATER)
    assert kinds(evolution) == [ChangeKind.REUSE]
    slot = evolution.layout.slots[1]
    assert (slot.name, slot.key, slot.type, slot.former_name) == (
        "new",
        a_key("new"),
        ColumnType.STRING,
        "old",
    )
    assert slot.first_seen_hour == slot.last_seen_hour == LATER


@pytest.mark.parametrize(
    ("retained", "now_hour"),
    [
        (RetainedValues.of([{1: 0}, {1: 1}]), LATER),
        (RetainedValues.of([{1: 0}, None]), LATER),
        (ONE_EMPTY_HOUR, T0 + 60 * DAY_S),
    ],
    ids=["a partition holds a value", "a partition has no counts", "not long enough"],
)
def test_a_slot_that_may_show_old_values_is_not_reused(retained: RetainedValues, now_hour: int) -> None:
    layout = a_layout(a_slot(1, "old", state=EMPTY))
    evolution = decide_twice(layout, ("new",), {"new": a_window(TEXT)}, retained, now_hour)
    assert kinds(evolution) == [ChangeKind.APPEND]


def test_a_slot_is_not_taken_from_a_key_that_is_requested_again() -> None:
    layout = a_layout(a_slot(1, "old", state=EMPTY))
    seen = {"new": a_window(TEXT), "old": a_window(TEXT, last_hour=LATER)}
    evolution = decide_twice(layout, ("new", "old"), seen, now_hour=LATER)
    assert [slot.key for slot in evolution.layout.slots[1:]] == [a_key("old"), a_key("new")]


def test_a_name_that_old_files_may_use_is_not_assigned_again() -> None:
    layout = a_layout(replace(a_slot(1, "new"), former_name="old"))
    evolution = decide_twice(layout, ("new", "old"), {"new": a_window(TEXT), "old": a_window(TEXT)})
    assert evolution.layout.slots[2].name == "old~1"


USED_AGAIN = {
    (ColumnType.TINYINT, ColumnType.TINYINT): ColumnType.TINYINT,
    (ColumnType.TINYINT, ColumnType.BIGINT): ColumnType.BIGINT,
    (ColumnType.BIGINT, ColumnType.TINYINT): ColumnType.BIGINT,
    (ColumnType.BIGINT, ColumnType.BIGINT): ColumnType.BIGINT,
    (ColumnType.BIGINT, ColumnType.DOUBLE): ColumnType.DOUBLE,
    (ColumnType.BIGINT, ColumnType.STRING): ColumnType.STRING,
    (ColumnType.DOUBLE, ColumnType.STRING): ColumnType.STRING,
    (ColumnType.DOUBLE, ColumnType.DOUBLE): ColumnType.DOUBLE,
    (ColumnType.STRING, ColumnType.STRING): ColumnType.STRING,
    (ColumnType.TINYINT, ColumnType.DOUBLE): ColumnType.DOUBLE,
    (ColumnType.TINYINT, ColumnType.STRING): ColumnType.STRING,
}
EVIDENCE = {
    ColumnType.TINYINT: integers(0, 1),
    ColumnType.BIGINT: integers(0, 1 << 40),
    ColumnType.DOUBLE: FLOATS,
    ColumnType.STRING: TEXT,
}


@pytest.mark.parametrize(("old", "needed"), [*product([*EVIDENCE, ColumnType.BOOLEAN], EVIDENCE)])
def test_a_slot_takes_another_key_only_if_the_metastore_accepts_its_type(
    old: ColumnType, needed: ColumnType
) -> None:
    layout = a_layout(a_slot(1, "old", old, state=EMPTY))
    evolution = decide_twice(layout, ("new",), {"new": a_window(EVIDENCE[needed])}, now_hour=LATER)
    slot = evolution.layout.by_key[a_key("new")]
    expected = USED_AGAIN.get((old, needed))
    assert (slot.index, slot.type) == ((2, needed) if expected is None else (1, expected))


def test_a_pinned_width_is_kept_when_a_slot_is_reused() -> None:
    layout = a_layout(a_slot(1, "old", ColumnType.BIGINT, state=EMPTY))
    rules = FlatRules(pins={a_key("new"): ColumnType.INT})
    evolution = decide_twice(layout, ("new",), {"new": a_window(integers(0, 1))}, now_hour=LATER, rules=rules)
    assert evolution.layout.slots[2].type is ColumnType.INT


def test_of_free_slots_the_one_of_the_same_type_is_taken() -> None:
    types = [ColumnType.INT, ColumnType.BIGINT, ColumnType.SMALLINT]
    layout = a_layout(*(a_slot(n, f"old{n}", each, state=EMPTY) for n, each in enumerate(types, 1)))
    evolution = decide_twice(layout, ("new",), {"new": a_window(integers(0, 1 << 40))}, now_hour=LATER)
    assert evolution.layout.by_key[a_key("new")].index == 2


@pytest.mark.parametrize(
    ("old", "evidence", "new"),
    [
        (ColumnType.TINYINT, integers(0, 300), ColumnType.SMALLINT),
        (ColumnType.INT, FLOATS, ColumnType.DOUBLE),
        (ColumnType.BIGINT, FLOATS.join(integers(0, 1 << 53)), ColumnType.DOUBLE),
        (ColumnType.BIGINT, integers(0, 1), ColumnType.BIGINT),
        (ColumnType.DOUBLE, integers(0, 1), ColumnType.DOUBLE),
        (ColumnType.STRING, integers(0, 1), ColumnType.STRING),
    ],
)
def test_numbers_widen_in_place_and_nothing_narrows(
    old: ColumnType, evidence: Evidence, new: ColumnType
) -> None:
    evolution = decide_twice(
        a_layout(a_slot(1, "n", old)), ("n",), {"n": a_window(evidence)}, RetainedValues.of([{1: 5}])
    )
    assert evolution.layout.slots[1].type is new
    assert kinds(evolution) == ([] if new is old else [ChangeKind.WIDEN])


def test_64_bit_integers_become_doubles_only_if_known_to_be_exact() -> None:
    layout = a_layout(a_slot(1, "n", ColumnType.BIGINT))
    unknown = {"n": a_window(FLOATS, misfits=100)}
    held = decide_twice(layout, ("n",), unknown, RetainedValues.of([{1: 5}]))
    assert kinds(held) == [ChangeKind.PROMOTE]
    assert kinds(decide_twice(layout, ("n",), unknown, RetainedValues.of([{1: 0}]))) == [ChangeKind.WIDEN]


def test_a_column_is_promoted_to_string_when_too_many_values_do_not_fit() -> None:
    layout = a_layout(a_slot(1, "n", ColumnType.INT))
    mixed = integers(0, 5).join(TEXT)
    few = decide_twice(layout, ("n",), {"n": a_window(mixed, values=100_000, misfits=100)})
    assert kinds(few) == [ChangeKind.WAIT]
    many = decide_twice(layout, ("n",), {"n": a_window(mixed, values=100_000, misfits=101)})
    assert kinds(many) == [ChangeKind.PROMOTE]
    assert not many.alters
    assert many.layout is layout
    hardened = promote_to_string(layout, 1)
    assert hardened.slots[1].type is ColumnType.STRING
    assert hardened.version == layout.version + 1
    assert kinds(decide_twice(hardened, ("n",), {"n": a_window(mixed, values=100_000, misfits=101)})) == []


@pytest.mark.parametrize(
    ("values", "strays", "expected"),
    [
        (2_000, 1, ColumnType.SMALLINT),
        (20_000, 20, ColumnType.SMALLINT),
        (20_000, 21, ColumnType.STRING),
        (2_000, 19, ColumnType.SMALLINT),
        (2_000, 20, ColumnType.STRING),
        (19, 1, ColumnType.SMALLINT),
        (3, 1, ColumnType.SMALLINT),
        (2, 1, ColumnType.STRING),
        (40, 19, ColumnType.SMALLINT),
        (41, 20, ColumnType.STRING),
        (2_000, 1_999, ColumnType.STRING),
    ],
)
def test_a_new_column_of_numbers_is_numeric_despite_a_few_strays(
    values: int, strays: int, expected: ColumnType
) -> None:
    texts = ['{"n":300}'] * (values - strays) + ['{"n":"x"}'] * strays
    seen = HourCounts({T0 - 3 * HOUR_S: sniff(texts, FlatRules())}).window()
    evolution = decide(
        Layout.new(), compute_demand([requested_by("n")], FlatRules()), seen, NOTHING_KEPT, T0, FlatRules()
    )
    assert [slot.type for slot in evolution.layout.live] == [expected]


def test_an_hour_with_text_that_was_not_counted_makes_a_new_column_text() -> None:
    older = Observations(50, 0, {a_key("n"): KeyCounts(50, 50, 0, TEXT)})
    counts = HourCounts({T0: sniff(['{"n":1}'] * 500 + ['{"n":"x"}'], FlatRules()), T0 - HOUR_S: older})
    window = counts.window()[a_key("n")]
    assert choose_new_type(a_key("n"), window, FlatRules()) is ColumnType.STRING
    assert (
        choose_new_type(a_key("n"), counts.since(T0).window()[a_key("n")], FlatRules()) is ColumnType.TINYINT
    )


def test_a_late_hour_with_one_stray_does_not_make_a_new_column_text() -> None:
    early = HourCounts({T0: sniff(['{"n":1}'] * 99, FlatRules())})
    late = early.join(HourCounts({T0 - HOUR_S: sniff(['{"n":"x"}'], FlatRules())})).window()[a_key("n")]
    evolution = decide_twice(Layout.new(), ("n",), {"n": late}, now_hour=T0 + HOUR_S)
    assert evolution.layout.slots[1].type is ColumnType.TINYINT


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (['{"n":1}'] * 9 + ['{"n":"x"}'], ChangeKind.WAIT),
        (['{"n":1}'] * 5 + ['{"n":"x"}'] * 5, ChangeKind.APPEND),
        (['{"n":"x"}'], ChangeKind.APPEND),
    ],
    ids=["a stray", "as much text", "text"],
)
def test_numbers_with_a_stray_wait_as_numbers_do_and_text_does_not(
    texts: list[str], expected: ChangeKind
) -> None:
    seen = HourCounts({T0: sniff(texts, FlatRules())}).window()[a_key("n")]
    assert kinds(decide_twice(Layout.new(), ("n",), {"n": seen})) == [expected]


def test_an_integer_beyond_64_bits_among_fractions_does_not_make_a_new_column_text() -> None:
    texts = ['{"n":1.5}'] * 1_000 + ['{"n":123456789012345678901}']
    seen = HourCounts({T0: sniff(texts, FlatRules())}).window()[a_key("n")]
    assert decide_twice(Layout.new(), ("n",), {"n": seen}).layout.slots[1].type is ColumnType.DOUBLE


def test_a_promotion_of_a_double_warns_that_its_texts_change() -> None:
    layout = a_layout(a_slot(1, "n", ColumnType.DOUBLE))
    window = a_window(FLOATS.join(TEXT), values=100_000, misfits=101)
    promoted = decide_twice(layout, ("n",), {"n": window}).of(ChangeKind.PROMOTE)
    pinned = decide_twice(
        layout, ("n",), {"n": window}, rules=FlatRules(pins={a_key("n"): ColumnType.STRING})
    ).of(ChangeKind.PROMOTE)
    for change in (*promoted, *pinned):
        assert "in hours written before the promotion, 7 reads as 7.0" in change.reason
    assert len(promoted) == len(pinned) == 1


def test_without_partitions_a_column_becomes_string_immediately() -> None:
    layout = a_layout(a_slot(1, "n", ColumnType.INT))
    assert kinds(decide_twice(layout, ("n",), {"n": a_window(TEXT, misfits=50)}, NOTHING_KEPT)) == [
        ChangeKind.WIDEN
    ]


@pytest.mark.parametrize(
    ("old", "pin", "expected"),
    [
        (ColumnType.INT, ColumnType.STRING, ChangeKind.PROMOTE),
        (ColumnType.INT, ColumnType.BIGINT, ChangeKind.WIDEN),
        (ColumnType.BIGINT, ColumnType.INT, ChangeKind.WAIT),
        (ColumnType.BIGINT, ColumnType.DOUBLE, ChangeKind.WAIT),
        (ColumnType.STRING, ColumnType.BOOLEAN, ChangeKind.WAIT),
    ],
)
def test_a_pin_widens_a_column_and_never_narrows_it(
    old: ColumnType, pin: ColumnType, expected: ChangeKind
) -> None:
    rules = FlatRules(pins={a_key("n"): pin})
    window = a_window(integers(0, 1 << 60))
    evolution = decide_twice(a_layout(a_slot(1, "n", old)), ("n",), {"n": window}, rules=rules)
    assert kinds(evolution) == [expected]


def test_hours_are_refreshed_once_a_day_or_with_another_change() -> None:
    layout = a_layout(a_slot(1, "a"))
    soon, next_day = T0 + 23 * HOUR_S, T0 + 24 * HOUR_S
    assert not decide_twice(layout, ("a",), {"a": a_window(TEXT, last_hour=soon)}, now_hour=soon).alters
    refreshed = decide_twice(layout, ("a",), {"a": a_window(TEXT, last_hour=next_day)}, now_hour=next_day)
    assert kinds(refreshed) == [ChangeKind.REFRESH]
    assert refreshed.layout.slots[1].last_seen_hour == next_day
    seen = {"a": a_window(TEXT, last_hour=soon), "b": a_window(TEXT)}
    both = decide_twice(layout, ("a", "b"), seen, now_hour=soon)
    assert kinds(both) == [ChangeKind.APPEND]
    assert both.layout.slots[1].last_seen_hour == soon


def test_an_event_from_the_future_does_not_keep_a_slot_indefinitely() -> None:
    layout = a_layout(a_slot(1, "a"))
    evolution = decide_twice(
        layout, ("b",), {"a": a_window(TEXT, last_hour=T0 + 9_999 * DAY_S), "b": a_window(TEXT)}
    )
    assert evolution.layout.slots[1].last_seen_hour == T0


def test_a_full_table_makes_keys_wait_until_a_slot_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SLOTS_MAX", 2)
    layout = a_layout(a_slot(1, "a"))
    seen = {"a": a_window(TEXT), "b": a_window(TEXT, last_hour=LATER)}
    assert kinds(decide_twice(layout, ("a", "b"), seen)) == [ChangeKind.WAIT]
    emptied = a_layout(replace(a_slot(1, "a"), state=EMPTY))
    assert kinds(decide_twice(emptied, ("b",), seen, now_hour=LATER)) == [ChangeKind.REUSE]


def test_a_decision_is_a_function_of_its_input() -> None:
    keys = tuple(f"key_{letter}" for letter in "gfedcba")
    seen = {dotted: a_window(TEXT) for dotted in keys}
    one = decide_twice(Layout.new(), keys, seen)
    two = decide_twice(Layout.new(), tuple(reversed(keys)), dict(reversed(seen.items())))
    assert one == two
