"""The three storage forms are exact sets, even in cases where those of Lens corrupt their content."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from state.errors import LimitExceeded, PeriodMismatch
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.storage_forms import ENDS_AND_HOLES, RANGES, STORE_ALL, StorageForm
from state.timelines.table_properties import build_key_prefix
from state.timelines.time_ranges import TimePartition
from state.timelines.timeline import Timeline, build_form_properties
from tests.builders.catalog.timelines import find_holes, join_pairs


P = UpdatePeriod
FORMS = (STORE_ALL, ENDS_AND_HOLES, RANGES)
offsets = st.integers(-25, 25)


def day(number: int) -> TimePartition:
    return TimePartition.parse(P.DAILY, f"2015-01-{number:02d}")


def days(form: StorageForm, *numbers: int) -> Timeline:
    timeline = Timeline(P.DAILY, "dt", form=form)
    for number in numbers:
        assert timeline.add(day(number))
    return timeline


def keys(timeline: Timeline) -> dict[str, str]:
    start = build_key_prefix(timeline.period, timeline.column)
    written = timeline.to_properties()
    return {key.removeprefix(start): value for key, value in written.items()}


class TimelineMachine(RuleBasedStateMachine):
    """Adds, drops, reloads and migrations in any order, for any period and form."""

    def __init__(self) -> None:
        super().__init__()
        self.properties: dict[str, str] = {}
        self.model: set[int] = set()

    @initialize(
        period=st.sampled_from(P), form=st.sampled_from(FORMS), moment_s=st.integers(-(10**10), 10**11)
    )
    def create(self, period: UpdatePeriod, form: StorageForm, moment_s: int) -> None:
        self.timeline = Timeline(period, "dt", form=form, jump_max=100)
        self.now = period.floor(moment_s)

    def partition(self, offset: int) -> TimePartition:
        return TimePartition(self.timeline.period, self.now + offset)

    @rule(x=offsets)
    def add(self, x: int) -> None:
        assert self.timeline.add(self.partition(x)) == (x not in self.model)
        self.model.add(x)

    @rule(x=offsets)
    def drop(self, x: int) -> None:
        assert self.timeline.drop(self.partition(x)) == (x in self.model)
        self.model.discard(x)

    @rule()
    def reload(self) -> None:
        self.properties |= build_form_properties(self.timeline, self.timeline.form, self.properties)
        self.timeline = Timeline.from_properties(self.properties, self.timeline.period, "dt", jump_max=100)

    @rule(form=st.sampled_from(FORMS))
    def migrate(self, form: StorageForm) -> None:
        self.properties |= build_form_properties(self.timeline, form, self.properties)
        self.timeline.form = form

    @rule(period=st.sampled_from(P))
    def refuse_another_period(self, period: UpdatePeriod) -> None:
        if period is not self.timeline.period:
            with pytest.raises(PeriodMismatch):
                self.timeline.add(TimePartition(period, self.now))

    @rule(distance=st.sampled_from([-200, 200]))
    def refuse_a_jump(self, distance: int) -> None:
        if self.model:
            before = self.timeline.refused
            with pytest.raises(LimitExceeded):
                self.timeline.add(self.partition(distance))
            assert self.timeline.refused == before + 1

    @invariant()
    def is_the_same_set(self) -> None:
        if not hasattr(self, "timeline"):
            return
        self.timeline.check()
        assert [partition.ordinal - self.now for partition in self.timeline] == sorted(self.model)
        assert (not self.timeline.runs) == (not self.model)
        latest, first = self.timeline.latest(), self.timeline.first()
        assert (latest.ordinal - self.now if latest else None) == max(self.model, default=None)
        assert (first.ordinal - self.now if first else None) == min(self.model, default=None)
        holes = [hole.ordinal - self.now for hole in find_holes(self.timeline)]
        assert set(holes) == (
            set(range(min(self.model), max(self.model))) - self.model if self.model else set()
        )


TimelineMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestTimelineMachine = TimelineMachine.TestCase


@pytest.mark.parametrize(
    ("numbers", "holes", "ranges"),
    [
        ((1, 2, 3, 4, 9, 10), "05 06 07 08", "[2015-01-01, 2015-01-05),[2015-01-09, 2015-01-11)"),
        (
            (1, 2, 3, 5, 6, 9, 11, 15, 16),
            "04 07 08 10 12 13 14",
            (
                "[2015-01-01, 2015-01-04),[2015-01-05, 2015-01-07),[2015-01-09, 2015-01-10),[2015-01-11, "
                "2015-01-12),[2015-01-15, 2015-01-17)"
            ),
        ),
    ],
)
def test_the_examples_of_the_design_document(numbers: tuple[int, ...], holes: str, ranges: str) -> None:
    ends_and_holes = keys(days(ENDS_AND_HOLES, *numbers))
    assert ends_and_holes["first"] == f"2015-01-{numbers[0]:02d}"
    assert ends_and_holes["latest"] == f"2015-01-{numbers[-1]:02d}"
    assert ends_and_holes["holes0"] == ",".join(f"2015-01-{hole}" for hole in holes.split())
    assert keys(days(RANGES, *numbers))["ranges0"] == ranges
    assert keys(days(STORE_ALL, *numbers))["partitions0"] == ",".join(str(day(number)) for number in numbers)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dropped", "left"), [(1, 5), (5, 1)])
def test_dropping_an_end_leaves_no_hole(form: StorageForm, dropped: int, left: int) -> None:
    timeline = days(form, 1, 5)
    assert timeline.drop(day(dropped))
    assert list(timeline) == [day(left)]
    assert not find_holes(timeline)
    assert timeline.latest() == timeline.first() == day(left)


@pytest.mark.parametrize("form", FORMS)
def test_dropping_all_leaves_an_empty_timeline_that_is_still_written(form: StorageForm) -> None:
    timeline = days(form, 1, 2, 3)
    for number in (2, 1, 3):
        assert timeline.drop(day(number))
    assert not timeline.runs
    assert timeline.latest() is None
    written = keys(timeline)
    assert written.pop("storage.class") == form.class_name
    assert (
        written
        == {
            STORE_ALL: {"partitions.size": "0"},
            ENDS_AND_HOLES: {"first": "", "latest": "", "holes.size": "0"},
            RANGES: {"ranges.size": "0"},
        }[form]
    )


@pytest.mark.parametrize(
    ("period", "added", "stored", "holes"),
    [
        (P.MONTHLY, ("2014-11", "2015-03"), ("2014-11", "2015-03"), "2014-12 2015-01 2015-02"),
        (P.QUARTERLY, ("2014-10", "2015-07"), ("2014-10", "2015-07"), "2015-01 2015-04"),
        (P.WEEKLY, ("2014-W50", "2015-W02"), ("2014-W50", "2015-W02"), "2014-W51 2014-W52 2015-W01"),
    ],
)
def test_holes_follow_the_calendar(
    period: UpdatePeriod, added: tuple[str, str], stored: tuple[str, str], holes: str
) -> None:
    timeline = Timeline(period, "dt")
    for text in added:
        timeline.add(TimePartition.parse(period, text))
    assert (str(timeline.first()), str(timeline.latest())) == stored
    assert " ".join(map(str, find_holes(timeline))) == holes


def test_ranges_added_one_after_the_other_become_one() -> None:
    jan = P.DAILY.parse("2015-01-01")
    runs = join_pairs([(jan, jan + 4), (jan + 9, jan + 11), (jan + 3, jan + 9)])
    timeline = Timeline(P.DAILY, "dt", form=RANGES, runs=runs)
    assert keys(timeline)["ranges0"] == "[2015-01-01, 2015-01-12)"
    assert runs.count() * 86_400_000 == 950_400_000
    runs.add_range(jan + 20, jan + 20)
    assert keys(timeline)["ranges0"] == "[2015-01-01, 2015-01-12)"


@pytest.mark.parametrize("form", FORMS)
class TestRefusals:
    """Bugs of Lens: each of these cases corrupts or fails there in at least one form."""

    def test_adding_an_existing_partition_is_false_in_every_form(self, form: StorageForm) -> None:
        assert not days(form, 1).add(day(1))

    @pytest.mark.parametrize(("held", "dropped"), [((1, 5), 3), ((5,), 9), ((5,), 6), ((5,), 1), ((), 1)])
    def test_dropping_an_absent_partition_changes_nothing(
        self, form: StorageForm, held: tuple[int, ...], dropped: int
    ) -> None:
        timeline = days(form, *held)
        before = keys(timeline)
        assert not timeline.drop(day(dropped))
        assert keys(timeline) == before
        timeline.check()
        assert list(timeline) == [day(number) for number in held]

    def test_a_partition_of_another_period_is_refused_and_changes_nothing(self, form: StorageForm) -> None:
        timeline = days(form, 1)
        for other in (
            TimePartition.parse(P.HOURLY, "2015-01-02-03"),
            TimePartition.parse(P.MONTHLY, "2015-03"),
        ):
            for operation in (timeline.add, timeline.drop, timeline.exists):
                with pytest.raises(PeriodMismatch):
                    operation(other)
        assert list(timeline) == [day(1)]
        assert not find_holes(timeline)

    def test_one_stray_value_does_not_create_millions_of_holes(self, form: StorageForm) -> None:
        timeline = Timeline(P.MINUTELY, "dt", form=form)
        timeline.add(TimePartition.parse(P.MINUTELY, "2015-01-01-00-00"))
        with pytest.raises(LimitExceeded, match="1970-01-01-00-00"):
            timeline.add(TimePartition.parse(P.MINUTELY, "1970-01-01-00-00"))
        with pytest.raises(LimitExceeded, match="9999-12-31-00-00"):
            timeline.add(TimePartition.parse(P.MINUTELY, "9999-12-31-00-00"))
        assert timeline.refused == 2
        assert len(list(timeline)) == 1

    def test_dropping_one_value_of_many_times_a_year_works_for_every_period(self, form: StorageForm) -> None:
        for period in P:
            timeline = Timeline(period, "dt", form=form)
            start = period.parse(period.format(period.floor(1_700_000_000)))
            for offset in (3, -5, 0, 4, -2, 3, 1):
                timeline.add(TimePartition(period, start + offset))
            for offset in (4, -5, 0, 3, 1, -2):
                assert timeline.drop(TimePartition(period, start + offset))
                timeline.check()
            assert not timeline.runs


def test_a_listing_with_strays_keeps_its_largest_group() -> None:
    timeline = Timeline(P.DAILY, "dt")
    listed = ["1970-01-01", "9999-12-31", "2015-01-01", "2015-01-02", "2015-01-05"]
    assert timeline.load(map(P.DAILY.parse, listed)) == 2
    assert timeline.refused == 2
    assert [str(partition) for partition in timeline] == listed[2:]
    assert timeline.load([]) == 0
    assert not timeline.runs


def test_a_copy_is_independent() -> None:
    timeline = days(RANGES, 1)
    other = timeline.copy()
    other.add(day(2))
    assert list(timeline) == [day(1)]
    assert "ranges" in repr(other)


def test_check_detects_broken_runs() -> None:
    timeline = Timeline(P.DAILY, "dt", runs=Runs((2, 1)))
    with pytest.raises(AssertionError):
        timeline.check()


def test_a_partition_ends_where_the_next_one_begins() -> None:
    assert day(1).end_s == day(2).start_s
