"""Observations add up in any order, batches count once, and hour counts survive a round trip through JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.counts import hour_counts_json
from state.columns.counts.hour_counts_json import hour_counts_from_json, hour_counts_to_json
from state.columns.counts.observations import (
    DAY_S,
    HourCounts,
    KeyCounts,
    KeyWindow,
    Observations,
)
from state.columns.counts.promotion import MisfitCounts
from state.columns.paths import KeyPath
from state.columns.slots import HOUR_S
from state.columns.types import Evidence, integers
from state.errors import LimitExceeded, StateCorrupt
from tests.builders.flat.columns import FLOATS, T0, TEXT, a_key, hour_counts, observations, some_hour_counts


@given(observations(), observations(), observations())
def test_observations_add_up_in_any_order(one: Observations, two: Observations, three: Observations) -> None:
    assert one.join(two) == two.join(one)
    assert one.join(two).join(three) == one.join(two.join(three))
    assert one.join(Observations()) == one
    one.join(two).check()


@given(hour_counts(), hour_counts())
def test_hour_counts_add_up_in_any_order(one: HourCounts, two: HourCounts) -> None:
    assert one.join(two) == two.join(one)
    one.join(two).check()


@given(hour_counts(), st.integers(0, 60))
def test_a_window_is_what_a_loop_over_the_hours_finds(counts: HourCounts, oldest: int) -> None:
    since = T0 + oldest * HOUR_S
    assert counts.since(since).window() == naive_window(counts, since)


def naive_window(counts: HourCounts, since: int) -> dict[KeyPath, KeyWindow]:
    hours = {hour: seen.keys for hour, seen in counts.hours.items() if hour >= since}
    brought = {key for keys in hours.values() for key, seen in keys.items() if seen.values}
    own = {key: naive_own(key, hours) for key in brought}
    objects = {above for key in brought for above in ancestors(key)}
    return {key: naive_with_members(key, own) for key in brought | objects}


def naive_own(key: KeyPath, hours: dict[int, Mapping[KeyPath, KeyCounts]]) -> KeyWindow:
    seen = {hour: keys[key] for hour, keys in hours.items() if key in keys and keys[key].values}
    total = KeyCounts()
    for each in seen.values():
        total = total.join(each)
    uncounted = MisfitCounts(
        wide_integers=naive_uncounted(seen, "wide_integers", lambda each: each.doubles != each.numbers),
        fractions=naive_uncounted(seen, "fractions", lambda each: each.has_floats),
        others=naive_uncounted(seen, "others", lambda each: MisfitCounts.of_value(each).others > 0),
    )
    others = sum(keys[key].rows for keys in hours.values() if key in keys and not keys[key].values)
    return KeyWindow(total, min(seen), max(seen), naive_misfit_hours(seen), uncounted, others)


def naive_uncounted(seen: dict[int, KeyCounts], kind: str, contains: Callable[[Evidence], bool]) -> int:
    hours = [each for each in seen.values() if contains(each.evidence)]
    return sum(each.nonnull for each in hours if not getattr(each.kinds, kind))


def naive_misfit_hours(seen: dict[int, KeyCounts]) -> tuple[tuple[int, MisfitCounts], ...]:
    return tuple((hour, seen[hour].kinds) for hour in sorted(seen) if any(seen[hour].kinds.to_list()))


def naive_with_members(key: KeyPath, own: dict[KeyPath, KeyWindow]) -> KeyWindow:
    members = [window for member, window in own.items() if member != key and member.is_within(key)]
    if not members:
        return own[key]
    windows = [own[key], *members] if key in own else members
    counts = [KeyCounts(m.total.rows, m.total.values, 0) for m in members]
    fullest = max([own[key].total, *counts] if key in own else counts, key=lambda s: (s.values, -s.rows))
    evidence = TEXT.join(own[key].evidence) if key in own else TEXT
    misfits = own[key].misfit_hours if key in own else ()
    hours = min(w.first_hour for w in windows), max(w.last_hour for w in windows)
    uncounted = own[key].uncounted if key in own else MisfitCounts()
    uncounted = replace(uncounted, others=fullest.values)
    others = own[key].rows_of_other_hours if key in own else 0
    return KeyWindow(replace(fullest, evidence=evidence), *hours, misfits, uncounted, others)


def ancestors(key: KeyPath) -> list[KeyPath]:
    return [KeyPath(key.members[:depth]) for depth in range(1, key.depth)]


def test_an_object_has_a_value_where_a_member_has_one() -> None:
    window = some_hour_counts([T0], "exp.e_1", integers(0, 1)).window()[a_key("exp")]
    assert window == KeyWindow(KeyCounts(10, 10, 0, TEXT), T0, T0, uncounted=MisfitCounts(others=10))


@given(hour_counts(), st.integers(0, 60))
def test_merging_hours_by_day_keeps_totals(counts: HourCounts, oldest: int) -> None:
    coarse = counts.merge_days_before(T0 + oldest * HOUR_S)
    coarse.check()
    fine_window, coarse_window = counts.window(), coarse.window()
    assert coarse_window.keys() == fine_window.keys()
    for key, each in coarse_window.items():
        assert each.total == fine_window[key].total
        assert fine_window[key].first_hour - DAY_S < each.first_hour <= fine_window[key].first_hour
        assert fine_window[key].last_hour - DAY_S < each.last_hour <= fine_window[key].last_hour


@given(hour_counts(), hour_counts())
def test_a_batch_counts_once(counts: HourCounts, batch: HourCounts) -> None:
    once = counts.with_batch(counts.batch + 1, batch.hours)
    assert once.with_batch(once.batch, batch.hours) == once
    assert once.with_batch(0, batch.hours) == once


@given(hour_counts())
def test_hour_counts_read_back_unchanged(counts: HourCounts) -> None:
    assert hour_counts_from_json(hour_counts_to_json(counts)) == counts


def changed(**fields: Any) -> str:
    form = json.loads(hour_counts_to_json(some_hour_counts([T0], "a", integers(1, 2))))
    return json.dumps(form | fields)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"v":1}',
        changed(v=2),
        changed(batch="1"),
        changed(keys=["a"]),
        changed(keys=[]),
        changed(hours={"x": [1, 0, []]}),
        changed(hours={"3601": [1, 0, []]}),
        changed(hours={"3600": [1, 2, []]}),
        changed(hours={"3600": [1, 0, [[0, 1, 2, 0, None, None, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, 1, 1, 0, 5, None, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, 1, 1, 0, 5, 4, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, True, 1, 0, 4, 5, 0]]]}),
        changed(hours={"3600": [1, 0, [[-1, 1, 1, 0, 4, 5, 0]]]}),
        changed(hours={"3600": [1, 0, [[0, 1]]]}),
    ],
)
def test_other_texts_than_hour_counts_are_refused(text: str) -> None:
    with pytest.raises(StateCorrupt):
        hour_counts_from_json(text)


def test_a_month_of_300_columns_stays_small() -> None:
    seen = KeyCounts(10**7, 10**6, 3, FLOATS.join(integers(-(2**40), 2**40)))
    hour = Observations(10**7, 5, {a_key(f"action.key_{n}"): seen for n in range(300)})
    counts = HourCounts(dict.fromkeys(range(T0, T0 + 60 * DAY_S, HOUR_S), hour)).merge_days_before(
        T0 + 58 * DAY_S
    )
    assert len(hour_counts_to_json(counts)) < 3_000_000
    assert counts.window()[a_key("action.key_0")].total.rows == 1440 * 10**7


def test_misfits_of_a_narrowed_column_become_values_and_those_of_others_stay() -> None:
    seen = KeyCounts(10, 5, 3, integers(0, 9).join(Evidence(has_text=True)), MisfitCounts(others=3))
    counts = HourCounts({0: Observations(10, 0, {a_key("a"): seen, a_key("b"): seen})}, 4)
    after = counts.without_misfits(a_key("a"))
    assert after.hours[0].keys[a_key("a")] == KeyCounts(10, 8, 0, integers(0, 9))
    assert after.hours[0].keys[a_key("b")] == seen
    assert (after.batch, after.without_misfits(a_key("c"))) == (4, after)
    after.check()


def test_hour_counts_beyond_the_limit_are_refused_before_they_are_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = hour_counts_to_json(HourCounts())
    monkeypatch.setattr(hour_counts_json, "JSON_CHARS_MAX", len(text))
    assert hour_counts_from_json(text) == HourCounts()
    with pytest.raises(LimitExceeded, match="too long"):
        hour_counts_from_json(text + " ")


def test_keys_that_are_counted_elsewhere_are_left_out_and_the_rows_stay() -> None:
    a, b, seen = a_key("a"), a_key("b"), KeyCounts(3, 2, 0, TEXT)
    counts = Observations(3, 1, {a: seen, b: seen}, 1)
    assert counts.without([a, a_key("c")]) == Observations(3, 1, {b: seen}, 1)
    assert counts.without([]) == counts


def test_the_fill_rate_counts_the_rows_of_hours_without_a_value() -> None:
    absent, present = {a_key("a"): KeyCounts(2)}, {a_key("a"): KeyCounts(1, 1, 0, TEXT)}
    counts = HourCounts({T0: Observations(2, 0, absent), T0 + HOUR_S: Observations(1, 0, present)})
    window = counts.window()[a_key("a")]
    assert window.fill_rate == pytest.approx(1 / 3)
    assert (window.first_hour, window.last_hour) == (T0 + HOUR_S, T0 + HOUR_S)


def test_a_key_without_a_value_is_not_in_the_window() -> None:
    keys = {a_key("a"): KeyCounts(), a_key("b"): KeyCounts(3, 1, 0, TEXT)}
    counts = HourCounts(hours={T0: Observations(3, 0, keys)})
    assert set(counts.window()) == {a_key("b")}
