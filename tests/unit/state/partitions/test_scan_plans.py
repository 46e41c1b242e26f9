"""Scan plans: interval sets against sets of numbers, limits that widen, filters with a thousand values,
explanations."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.partitions.filters.dialect import HIVE_4
from state.partitions.filters.intervals import Interval, Intervals, check, contains, intersect_all, unite
from state.partitions.index import access_paths
from state.partitions.index.access_paths import RANGES_MAX, choose_path, find_ranges
from state.partitions.index.explanation import explain_filter
from state.partitions.index.scan_plans import (
    BOXES_MAX,
    EVERYTHING,
    NOWHERE,
    FilterPlan,
    MultiScanPlan,
    ScanPlan,
    plan_filter,
    unite_boxes,
)
from tests.builders.partitions.indexed_tables import TABLE, an_index


NUMBERS = range(40)
SETS = st.lists(st.tuples(st.integers(0, 39), st.integers(1, 6)), max_size=5).map(
    lambda spans: unite([(Interval(bytes([lo]), bytes([lo + size]), size == 1),) for lo, size in spans])
)


def numbers(intervals: Intervals) -> set[int]:
    lows, highs = [one.lo for one in intervals], [one.hi for one in intervals]
    return {number for number in NUMBERS if contains(lows, highs, bytes([number]))}


@given(st.lists(SETS, min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_interval_sets_unite_and_intersect_like_sets_of_numbers(sets: list[Intervals]) -> None:
    for made, expected in [
        (unite(sets), set.union(*map(numbers, sets))),
        (intersect_all(sets), set.intersection(*map(numbers, sets))),
    ]:
        check(made)
        assert numbers(made) == expected
        assert all(not one.is_point or one.hi[0] == one.lo[0] + 1 for one in made)


BOXES = st.dictionaries(st.integers(0, 2), SETS.filter(bool), max_size=3).map(
    lambda limits: ScanPlan(tuple(sorted(limits.items())))
)
PLANS: st.SearchStrategy[FilterPlan] = st.lists(BOXES, max_size=4).map(
    lambda boxes: MultiScanPlan(tuple(boxes))
)
POINTS = [(a, b, c) for a in range(0, 40, 3) for b in range(1, 40, 7) for c in range(2, 40, 11)]


def inside(plan: FilterPlan) -> set[tuple[int, int, int]]:
    return {
        point
        for point in POINTS
        if any(all(point[at] in numbers(found) for at, found in box.limits) for box in plan.plans())
    }


@given(PLANS, PLANS)
@settings(max_examples=40, deadline=None)
def test_and_intersects_or_unites_and_operands_do_not_change(one: FilterPlan, other: FilterPlan) -> None:
    before = hash(one), hash(other)
    assert inside(one.and_(other)) == inside(one) & inside(other)
    assert inside(unite_boxes([*one.plans(), *other.plans()])) == inside(one) | inside(other)
    one.and_(other).check()
    assert (hash(one), hash(other)) == before


def test_everything_and_nowhere_are_neutral_and_absorbing() -> None:
    box = ScanPlan(((0, (Interval(b"\x01", b"\x02"),)),))
    assert EVERYTHING.and_(box) == box.and_(EVERYTHING) == box
    assert unite_boxes([*EVERYTHING.plans(), *box.plans()]) == EVERYTHING
    assert unite_boxes([*NOWHERE.plans(), *box.plans()]) == box
    assert NOWHERE.and_(box) == NOWHERE
    assert choose_path(NOWHERE, 2).ranges == ()


def test_too_many_boxes_become_hulls_of_neighbours_and_the_answer_stays_correct() -> None:
    columns = [(f"c{at}", "int") for at in range(4)]
    rows = [(str(a), str(a % 7), str(a % 5), str(a % 3)) for a in range(60)]
    index = an_index(columns, rows)
    parts = [
        "(" + " or ".join(f"(c{at} = {n} and c{(at + 1) % 4} != {n + 1})" for n in range(9)) + ")"
        for at in range(4)
    ]
    prepared = index.prepare(TABLE, " and ".join(parts))
    assert prepared.condition is not None
    plan = plan_filter(prepared.condition)
    plan.check()
    assert len(plan.plans()) <= BOXES_MAX
    expected = [
        row
        for row in rows
        if all(
            any(int(row[at]) == n and int(row[(at + 1) % 4]) != n + 1 for n in range(9)) for at in range(4)
        )
    ]
    assert index.count(prepared) == len(expected) > 0


def test_a_filter_with_many_alternatives_is_planned_in_reasonable_time_and_answered_correctly() -> None:
    rows = [(str(a), str(b)) for a in range(3) for b in range(3)]
    index = an_index([("a", "int"), ("b", "int")], rows)
    text = " and ".join(f"(a != {number} or b > {number % 2})" for number in range(5000))
    started = time.process_time()
    found = index.names(index.prepare(TABLE, text))
    assert time.process_time() - started < 5
    assert len(found) == sum(all(int(a) != n or int(b) > n % 2 for n in range(3)) for a, b in rows)


def test_many_boxes_share_the_limit_of_ranges() -> None:
    rows = [(str(a), str(a % 5)) for a in range(3000)]
    index = an_index([("a", "int"), ("b", "int")], rows)
    listed = ",".join(str(number) for number in range(0, 4000, 2))
    others = " or ".join(f"b = {number} and a != {number}" for number in range(300))
    prepared = index.prepare(TABLE, f"(a) in ({listed}) and ({others})")
    assert len(prepared.access.ranges) <= RANGES_MAX
    expected = [row for row in rows if int(row[0]) % 2 == 0 and int(row[0]) != int(row[1])]
    assert index.count(prepared) == len(expected)


def test_a_list_of_a_thousand_structs_is_exact() -> None:
    rows = [(str(a), str(a * 7 % 1009)) for a in range(1200)]
    index = an_index([("a", "int"), ("b", "int")], rows)
    listed = ", ".join(f"struct({a}, {b})" for a, b in rows[:1000])
    prepared = index.prepare(TABLE, f"(struct(a, b)) in ({listed})")
    assert prepared.check is None
    assert index.count(prepared) == 1000


def test_a_product_of_lists_stops_at_the_column_that_would_exceed_the_limit() -> None:
    rows = [(str(a), str(b), str(c)) for a in range(12) for b in range(12) for c in range(4)]
    index = an_index([("a", "int"), ("b", "int"), ("c", "int")], rows)
    odd = ",".join(str(number) for number in range(1, 204, 2))
    prepared = index.prepare(TABLE, f"(a) in ({odd}) and (b) in ({odd}) and (c) in ({odd})")
    assert prepared.access.capped
    assert not prepared.access.exact
    assert len(prepared.access.ranges) <= RANGES_MAX
    assert index.count(prepared) == 6 * 6 * 2


def test_values_beyond_the_limit_of_ranges_are_merged_with_their_neighbours() -> None:
    index = an_index([("a", "int")], [(str(number),) for number in range(0, 22_000, 3)])
    wanted = ",".join(str(number) for number in range(0, 22_000, 2))
    prepared = index.prepare(TABLE, f"(a) in ({wanted})")
    assert prepared.access.capped
    assert index.count(prepared) == 22_000 // 6 + 1
    assert index.counts["caps-hit"] == 1


def test_a_repeated_filter_is_planned_once() -> None:
    index = an_index([("a", "int")], [("1",)])
    assert index.prepare(TABLE, "a = 1") is index.prepare(TABLE, "a = 1", HIVE_4)
    for number in range(300):
        index.prepare(TABLE, f"a = {number}")
    assert index.counts["plans"] == 301 - 1
    index.prepare(TABLE, "a = 299")
    assert index.counts["plans"] == 300, "a recent filter is cached"
    index.prepare(TABLE, "a = 0")
    assert index.counts["plans"] == 301, "only a bounded number is"


def test_a_very_long_filter_is_planned_each_time() -> None:
    index = an_index([("a", "int")], [("1",)])
    text = "a = 1" + " " * (1 << 16)
    assert index.prepare(TABLE, text) is not index.prepare(TABLE, text)


def test_postings_repeat_their_own_column_with_the_same_value() -> None:
    index = an_index([("a", "int"), ("b", "int")], [("1", "5")])
    condition = index.prepare(TABLE, "a = 1 and (b) in (5, 7, 9)").condition
    access = find_ranges(plan_filter(condition), 2, 1)
    assert len(access.ranges) == 3
    assert access.exact


@pytest.mark.parametrize(
    ("text", "way", "residual"),
    [
        ("", "whole table", ""),
        ("ds = 'a'", "key ranges", ""),
        ("ds = 'a' and hr = 5", "gets of whole keys", ""),
        ("hr = 5", "postings of hr", ""),
        ("ds > 'a' and hr > 5", "key ranges", "hr >= 6"),
        ("ds like '%a'", "key ranges", "ds like '%a'"),
        ("hr = 5 or ds like '_'", "whole table", "(hr = 5 or ds like '_')"),
        ("hr > 5 and hr < 5", "nothing: the filter can never be true", ""),
    ],
)
def test_an_explanation_names_the_access_path_and_the_residual_condition(
    text: str, way: str, residual: str
) -> None:
    index = an_index([("ds", "string"), ("hr", "int")], [("a", "5"), ("b", "6")])
    told = explain_filter(index, TABLE, text)
    assert told.way == way
    assert told.residual == residual
    assert told.scanned_rows >= told.matched_rows == index.count(index.prepare(TABLE, text))


@pytest.mark.parametrize("pairs", [1_000, 1_100, 3_000])
def test_there_is_no_cliff_where_a_filter_has_more_boxes_than_a_plan(pairs: int) -> None:
    rows = [(str(number), str(number * 7 % 9_000)) for number in range(9_000)]
    index = an_index([("a", "int"), ("b", "int")], rows)
    wanted = [(number * 3, number * 21 % 9_000) for number in range(pairs)]
    text = " or ".join(f"(a = {a} and b = {b})" for a, b in wanted)
    explanation = explain_filter(index, TABLE, text)
    assert explanation.matched_rows == pairs
    assert explanation.scanned_rows <= 1.2 * pairs, explanation.way
    assert explanation.residual == "" or "gets" not in explanation.way


def test_one_interval_twice_is_one_and_a_point_only_if_both_are() -> None:
    interval, point = Interval(b"\x01", b"\x02"), Interval(b"\x01", b"\x02", is_point=True)
    assert unite([(interval,), (point,)]) == (interval,)
    assert unite([(point,), (point,)]) == (point,)


def covers(box: ScanPlan, column: int, field: bytes) -> bool:
    intervals = dict(box.limits)[column]
    return contains([one.lo for one in intervals], [one.hi for one in intervals], field)


@pytest.mark.parametrize("is_longer_first", [True, False])
def test_a_product_of_too_many_boxes_makes_the_longer_list_shorter(is_longer_first: bool) -> None:
    def boxes(column: int, count: int) -> MultiScanPlan:
        spans = [(at.to_bytes(2), at.to_bytes(2) + b"\x01") for at in range(count)]
        return MultiScanPlan(tuple(ScanPlan(((column, (Interval(*span),)),)) for span in spans))

    long, short = boxes(0, BOXES_MAX // 2), boxes(1, 4)
    plan = long.and_(short) if is_longer_first else short.and_(long)
    plan.check()
    assert 1 < len(plan.plans()) <= BOXES_MAX
    for number in range(BOXES_MAX // 2):
        for at in range(4):
            field, other = number.to_bytes(2), at.to_bytes(2)
            assert any(covers(box, 0, field) and covers(box, 1, other) for box in plan.plans())
    beyond = (9).to_bytes(2)
    assert not any(covers(box, 1, beyond) for box in plan.plans()), "the shorter list stays exact"


def test_a_choice_between_paths_ends_where_too_many_keys_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [("a", "int"), ("b", "int")]
    index = an_index(columns, [(str(number % 97), str(number % 89)) for number in range(1500)])
    text = "a > 3 and b > 3"
    expected = sorted(index.names(index.prepare(TABLE, text)))
    monkeypatch.setattr(access_paths, "PROBED_KEYS_MAX", 64)
    again = an_index(columns, [(str(number % 97), str(number % 89)) for number in range(1500)])
    assert sorted(again.names(again.prepare(TABLE, text))) == expected
