"""Covering a range: the reference examples, equality with a naive recursion, and completeness by brute
force."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.recursive_cover import cover_recursively
from state.errors import Uncoverable
from state.timelines.cover import Cover, CoverRun, choose_storages, cover
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.tiling import Storage
from state.timelines.time_ranges import TimeRange
from tests.builders.catalog.timelines import find_best_by_days, join_pairs, runs, sets_of, storage


P = UpdatePeriod
RANGE = TimeRange.parse("2015-01-29-06", "2015-03-01-06")
HOURS = "[2015-01-01-00, 2015-04-01-00)"
DAYS = "[2015-01-01, 2015-04-01)"
MONTHS = "[2015-01, 2015-04)"
HEAD, TAIL = "HOURLY [2015-01-29-06, 2015-01-30-00)", "HOURLY [2015-03-01-00, 2015-03-01-06)"
ALL_BUT_TENTH = ["[2015-01-01, 2015-02-10)", "[2015-02-11, 2015-04-01)"]
ALL_BUT_HOUR = ["[2015-01-01-00, 2015-02-10-05)", "[2015-02-10-06, 2015-04-01-00)"]


def told(answer: Cover) -> list[str]:
    """Return the runs in the notation of the reference examples."""
    answer.check()
    return [f"{run.period.lens_name} {run.range}" for run in answer.runs()]


def missing(answer: Cover) -> list[str]:
    return [str(stretch) for stretch in answer.missing_ranges()]


EXAMPLES = [
    pytest.param(
        storage(hourly=HOURS, daily=DAYS, monthly=MONTHS),
        [HEAD, "DAILY [2015-01-30, 2015-02-01)", "MONTHLY [2015-02, 2015-03)", TAIL],
        27,
        27,
        id="best case: all rollups",
    ),
    pytest.param(
        storage(hourly=HOURS, daily=[], monthly=[]),
        ["HOURLY [2015-01-29-06, 2015-03-01-06)"],
        744,
        775,
        id="worst case: only hours",
    ),
    pytest.param(
        storage(hourly=HOURS, daily=[], monthly=MONTHS),
        ["HOURLY [2015-01-29-06, 2015-02-01-00)", "MONTHLY [2015-02, 2015-03)", TAIL],
        73,
        75,
        id="no days",
    ),
    pytest.param(
        storage(hourly=HOURS, daily=DAYS, monthly=[]),
        [HEAD, "DAILY [2015-01-30, 2015-03-01)", TAIL],
        54,
        55,
        id="no months",
    ),
    pytest.param(
        storage(hourly=HOURS, daily=ALL_BUT_TENTH, monthly=[]),
        [
            HEAD,
            "DAILY [2015-01-30, 2015-02-10)",
            "HOURLY [2015-02-10-00, 2015-02-11-00)",
            "DAILY [2015-02-11, 2015-03-01)",
            TAIL,
        ],
        77,
        79,
        id="one day missing",
    ),
]


@pytest.mark.parametrize(("held", "expected", "parts", "checks"), EXAMPLES)
def test_the_examples_of_the_reference_are_covered_as_listed(
    held: Storage, expected: list[str], parts: int, checks: int
) -> None:
    answer = cover([held], RANGE, strict=True)
    assert told(answer) == expected
    assert answer.complete
    assert answer.partition_count() == len(list(answer.partitions())) == parts
    recursion = cover_recursively(sets_of(held), RANGE)
    assert recursion.checks == checks
    assert [(part.period, part.ordinal) for _, part in answer.partitions()] == recursion.parts


def test_a_year_of_minutes_takes_534738_checks_by_recursion_and_one_run_here() -> None:
    year = TimeRange.parse("2014", "2015")
    minutes = P.MINUTELY.parse("2014-01-01-00-00")
    recursion = cover_recursively(
        {
            P.MINUTELY: set(range(minutes, minutes + 525_600)),
            P.HOURLY: set(),
            P.DAILY: set(),
            P.MONTHLY: set(),
            P.YEARLY: set(),
        },
        year,
    )
    assert recursion.checks == 1 + 12 + 365 + 365 * 24 + 365 * 24 * 60 == 534_738
    answer = cover([Storage("t", {P.MINUTELY: Runs((minutes, minutes + 525_600))})], year, strict=True)
    assert list(answer.runs()) == [CoverRun("t", P.MINUTELY, minutes, minutes + 525_599)]
    assert answer.partition_count() == len(recursion.parts) == 525_600


def test_one_missing_hour_costs_one_hour() -> None:
    held = storage(hourly=ALL_BUT_HOUR, daily=ALL_BUT_TENTH)
    answer = cover([held], RANGE)
    assert not answer.complete
    assert missing(answer) == ["[2015-02-10-05, 2015-02-10-06)"], "Lens reports the whole day"
    assert answer.partition_count() == 29 + 24 + 23, "Lens leaves out the hours after the missing one"
    assert answer.missing_s() == 3600
    with pytest.raises(Uncoverable, match="2015-02-10-05") as refused:
        cover([held], RANGE, strict=True)
    assert refused.value.context["missing"] == ["[2015-02-10-05, 2015-02-10-06)"]
    assert refused.value.context["finest"] == "HOURLY"


def test_a_range_finer_than_every_period_is_covered_inside_and_its_edges_are_missing() -> None:
    held = storage(daily=DAYS, monthly=MONTHS)
    answer = cover([held], RANGE)
    assert told(answer) == ["DAILY [2015-01-30, 2015-02-01)", "MONTHLY [2015-02, 2015-03)"]
    assert missing(answer) == ["[2015-01-29-06, 2015-01-30-00)", "[2015-03-01-00, 2015-03-01-06)"]
    with pytest.raises(Uncoverable):
        cover([held], RANGE, strict=True)


def test_an_empty_range_needs_no_partitions() -> None:
    answer = cover([storage(daily=DAYS)], TimeRange.parse("2015-02", "2015-02"), strict=True)
    assert answer.complete
    assert not told(answer)


def test_without_partitions_or_allowed_periods_everything_is_missing() -> None:
    for answer in (
        cover([], RANGE),
        cover([storage(daily=[])], RANGE),
        cover([storage(daily=DAYS)], RANGE, []),
    ):
        assert not told(answer)
        assert missing(answer) == ["[2015-01-29-06, 2015-03-01-06)"]
        assert answer.finest is None
    asked = cover([storage(daily=[])], TimeRange.parse("2015", "2016"), [P.DAILY, P.MONTHLY])
    assert missing(asked) == ["[2015-01-01, 2016-01-01)"]


def test_a_quarter_is_used_only_if_it_is_inside_the_range() -> None:
    held = storage(monthly="[2015-01, 2016-01)", quarterly="[2015-01, 2016-01)")
    answer = cover([held], TimeRange.parse("2015-02", "2015-09"), strict=True)
    assert told(answer) == [
        "MONTHLY [2015-02, 2015-04)",
        "QUARTERLY [2015-04, 2015-07)",
        "MONTHLY [2015-07, 2015-09)",
    ]


def test_a_week_is_not_used_if_its_first_hours_are_outside() -> None:
    held = storage(hourly=HOURS, weekly="[2015-W01, 2015-W10)")
    answer = cover([held], TimeRange.parse("2015-01-04-06", "2015-01-18-00"), strict=True)
    assert told(answer) == ["HOURLY [2015-01-04-06, 2015-01-11-00)", "WEEKLY [2015-W03, 2015-W04)"]


def test_weeks_across_two_missing_months_are_used() -> None:
    held = storage(
        daily="[2015-01-01, 2015-06-01)", weekly="[2015-W01, 2015-W30)", monthly=["[2015-01, 2015-03)"]
    )
    span = TimeRange.parse("2015-03", "2015-05")
    answer = cover([held], span, strict=True)
    assert answer.partition_count() == 13, "Lens takes 19: 7 weeks and 12 days"
    assert cover([held], span, min_count=True).partition_count() == 13


def test_the_fewest_partitions_may_need_weeks_in_place_of_a_month() -> None:
    # From the Sunday before April to the one after it: 3 days, the month and 2 days, or 5 weeks.
    held = storage(
        daily="[2015-01-01, 2015-06-01)", weekly="[2015-W01, 2015-W30)", monthly="[2015-01, 2015-06)"
    )
    span = TimeRange.parse("2015-03-29", "2015-05-03")
    assert cover([held], span).partition_count() == 3 + 1 + 2
    assert told(cover([held], span, min_count=True)) == ["WEEKLY [2015-W14, 2015-W19)"]


def test_weeks_replace_a_month_that_would_leave_days_uncovered() -> None:
    held = storage(weekly="[2015-W10, 2015-W15)", monthly="[2015-03, 2015-04)")
    answer = cover([held], TimeRange.parse("2015-03-01", "2015-04-05"), strict=True)
    assert told(answer) == ["WEEKLY [2015-W10, 2015-W15)"]


def test_a_range_of_all_time_costs_as_much_as_the_partitions_in_it() -> None:
    held = storage(daily=DAYS, weekly="[2015-W01, 2015-W30)", monthly=["[2015-01, 2015-03)"])
    span = TimeRange.parse("0001", "9999")
    began_s = time.process_time()
    answer = cover([held], span, min_count=True)
    assert time.process_time() - began_s < 1
    answer.check()
    assert missing(answer)[0] == "[0001-01-01, 2014-12-28)"
    assert answer.missing_s() == cover([held], span).missing_s()


def test_continuous_and_seconds_cover_the_same_moments() -> None:
    span = TimeRange.parse("2015-01-01-00-00-05", "2015-01-01-00-00-09")
    held = storage(
        continuous="[2015-01-01-00-00-00, 2015-01-01-00-00-09)",
        secondly="[2015-01-01-00-00-07, 2015-01-01-00-00-09)",
    )
    assert told(cover([held], span, strict=True)) == [
        "CONTINUOUS [2015-01-01-00-00-05, 2015-01-01-00-00-07)",
        "SECONDLY [2015-01-01-00-00-07, 2015-01-01-00-00-09)",
    ]


def test_continuous_partitions_that_do_not_exist_are_missing() -> None:
    span = TimeRange.parse("2015-01-01-00-00-05", "2015-01-01-00-00-09")
    held = storage(continuous="[2015-01-01-00-00-06, 2015-01-01-00-00-08)")
    answer = cover([held], span)
    assert told(answer) == ["CONTINUOUS [2015-01-01-00-00-06, 2015-01-01-00-00-08)"]
    assert missing(answer) == [
        "[2015-01-01-00-00-05, 2015-01-01-00-00-06)",
        "[2015-01-01-00-00-08, 2015-01-01-00-00-09)",
    ]


class TestSeveralStorages:
    def test_a_run_comes_from_the_storage_that_has_it(self) -> None:
        answer = cover(
            [storage("hot", hourly=HOURS), storage("cold", monthly=MONTHS, daily=DAYS)], RANGE, strict=True
        )
        assert [str(run) for run in answer.runs()] == [
            "hot HOURLY [2015-01-29-06, 2015-01-30-00)",
            "cold DAILY [2015-01-30, 2015-02-01)",
            "cold MONTHLY [2015-02, 2015-03)",
            "hot HOURLY [2015-03-01-00, 2015-03-01-06)",
        ]
        assert answer.tables() == ["cold", "hot"]

    def test_the_fewest_storages_win(self) -> None:
        answer = cover(
            [
                storage("s1", daily="[2015-01-01, 2015-01-06)"),
                storage("s2", daily="[2015-01-04, 2015-01-09)"),
                storage("s3", daily="[2015-01-01, 2015-01-09)"),
            ],
            TimeRange.parse("2015-01-01", "2015-01-09"),
            strict=True,
        )
        assert [str(run) for run in answer.runs()] == ["s3 DAILY [2015-01-01, 2015-01-09)"]
        assert answer.run_count() == 1

    def test_a_validity_window_hides_partitions_outside(self) -> None:
        window = TimeRange.parse("2015-02-01-12", "2015-02-20-12")
        held = Storage("t", {P.DAILY: runs(P.DAILY, DAYS)}, window.start_s, window.end_s)
        answer = cover([held], TimeRange.parse("2015-02", "2015-03"))
        assert told(answer) == ["DAILY [2015-02-02, 2015-02-20)"]
        assert missing(answer) == ["[2015-02-01, 2015-02-02)", "[2015-02-20, 2015-03-01)"]

    @pytest.mark.parametrize(
        ("holders", "storages", "chosen"),
        [
            (["123", "3", "3"], 3, "3"),
            (["123", "4", "5"], 5, "145"),
            (["12", "23", "4"], 4, "24"),
            (["12", "2", "1"], 2, "12"),
            (["12", "23", "34"], 4, "13"),
            ([], 3, ""),
            ([str(number) for number in range(1, 10)], 20, "123456789"),
        ],
    )
    def test_minimal_answering_storages(self, holders: list[str], storages: int, chosen: str) -> None:
        def mask(digits: str) -> int:
            return sum(1 << (int(digit) - 1) for digit in digits)

        got = choose_storages([mask(digits) for digits in holders], storages)
        assert got.bit_count() == len(chosen)
        assert all(got & mask(digits) for digits in holders)
        assert storages > 12 or got == mask(chosen) or len(holders) == 3

    @given(masks=st.sets(st.integers(1, 2**6 - 1), max_size=6))
    def test_no_smaller_choice_exists(self, masks: set[int]) -> None:
        got = choose_storages(masks, 6)
        assert all(got & mask for mask in masks)
        for size in range(got.bit_count()):
            for bits in combinations(range(6), size):
                assert not all(sum(1 << bit for bit in bits) & mask for mask in masks)


# Random nested data: two days, from days to minutes, with some partitions missing.
BASE = TimeRange.parse("2015-01-30", "2015-02-03")
NESTED = (P.MINUTELY, P.HOURLY, P.DAILY, P.MONTHLY)


@st.composite
def nested_storages(draw: st.DrawFn) -> Storage:
    held = {}
    for period in NESTED:
        first, end = period.floor(BASE.start_s), period.ceil(BASE.end_s)
        edges = sorted(draw(st.sets(st.integers(first, end), max_size=12)))
        held[period] = Runs(edges[: len(edges) // 2 * 2])
    return Storage("t", held)


spans = st.tuples(st.integers(0, 4 * 1440), st.integers(0, 4 * 1440)).map(
    lambda pair: TimeRange(BASE.start_s + min(pair) * 60, BASE.start_s + max(pair) * 60)
)


def union_of_missing(stretches: list[tuple[int, int]]) -> Runs:
    return join_pairs(stretches)


@settings(max_examples=150)
@given(held=nested_storages(), span=spans)
def test_a_cover_equals_the_naive_recursion(held: Storage, span: TimeRange) -> None:
    answer = cover([held], span)
    answer.check()
    recursion = cover_recursively(sets_of(held), span)
    assert [(part.period, part.ordinal) for _, part in answer.partitions()] == recursion.parts
    told_missing = join_pairs((stretch.start_s, stretch.end_s) for stretch in answer.missing())
    assert told_missing == join_pairs(recursion.missing)
    assert told_missing.count() == answer.missing_s()
    assert len(told_missing) == len(list(answer.missing())), "missing stretches are as long as they can be"
    assert answer.complete == (not recursion.missing)


@settings(max_examples=100)
@given(parts=st.lists(nested_storages(), min_size=1, max_size=4), span=spans)
def test_several_storages_cover_what_their_union_covers(parts: list[Storage], span: TimeRange) -> None:
    together: dict[UpdatePeriod, Runs] = {period: Runs() for period in NESTED}
    for part in parts:
        for period, held in part.runs.items():
            together[period].update(held)
    storages = [Storage(f"s{number}", part.runs) for number, part in enumerate(parts)]
    answer, single = cover(storages, span), cover([Storage("u", together)], span)
    answer.check()
    assert [part for _, part in answer.partitions()] == [part for _, part in single.partitions()]
    assert list(answer.missing()) == list(single.missing())
    by_name = {part.table: part for part in storages}
    for table, partition in answer.partitions():
        assert partition.ordinal in by_name[table].runs[partition.period], (
            "a run comes from a storage that has it"
        )


@settings(max_examples=50)
@given(held=nested_storages(), span=spans, window=spans)
def test_a_window_equals_a_storage_with_only_the_partitions_inside(
    held: Storage, span: TimeRange, window: TimeRange
) -> None:
    inside = {}
    for period, runs_ in held.runs.items():
        first, end = period.ceil(window.start_s), period.floor(window.end_s)
        inside[period] = Runs(runs_.between(first, end)) if first < end else Runs()
    windowed = cover([Storage("t", held.runs, window.start_s, window.end_s)], span)
    windowed.check()
    expected = cover([Storage("t", inside)], span)
    assert list(windowed.runs()) == list(expected.runs())
    assert list(windowed.missing()) == list(expected.missing())


UNNESTED = (P.DAILY, P.WEEKLY, P.MONTHLY)
QUARTER = TimeRange.parse("2015-01-20", "2015-04-10")


@st.composite
def unnested_storages(draw: st.DrawFn) -> Storage:
    held = {}
    for period in UNNESTED:
        first, end = period.floor(QUARTER.start_s), period.ceil(QUARTER.end_s)
        gone = draw(st.sets(st.integers(first, end - 1), max_size=(end - first)))
        held[period] = Runs.of(set(range(first, end)) - gone)
    return Storage("t", held)


@settings(max_examples=150)
@given(held=unnested_storages(), first=st.integers(0, 40), length=st.integers(1, 80))
def test_weeks_beside_months_cover_as_much_as_any_tiling_can(held: Storage, first: int, length: int) -> None:
    span = TimeRange(QUARTER.start_s + first * 86_400, QUARTER.start_s + (first + length) * 86_400)
    missing_days, count = find_best_by_days(sets_of(held), span)
    fewest, default = cover([held], span, min_count=True), cover([held], span)
    fewest.check()
    default.check()
    assert (fewest.missing_s() // 86_400, fewest.partition_count()) == (missing_days, count)
    assert default.missing_s() == fewest.missing_s()
    assert default.partition_count() >= count


def test_check_detects_an_overlap() -> None:
    with pytest.raises(AssertionError):
        Cover(TimeRange(0, 120), [(0, 60, 0), (0, 120, 0)], [], [("t", P.MINUTELY)], P.MINUTELY).check()
    with pytest.raises(AssertionError):
        Cover(TimeRange(0, 30), [(0, 30, 0)], [], [("t", P.MINUTELY)], P.MINUTELY).check()
