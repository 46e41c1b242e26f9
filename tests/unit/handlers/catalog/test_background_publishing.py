"""Publishing and migrating while the metastore's answers are late or fail: events are applied meanwhile, and
nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.ports import NullObserver
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.property_writer import TimelineName, migrate
from handlers.catalog.timelines.publisher import BEGUN_MAX, PAUSE_MAX_S, TimelinePublisher
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.metastore.calls import V4_0
from handlers.structs.objects import Table
from state.errors import NotFound, ServerFault, TidelineError
from state.store.memory import MemoryStore
from state.timelines.periods import UpdatePeriod
from state.timelines.timeline import build_table_properties
from tests.builders.catalog.flaky_source import FAULTS, FlakySource
from tests.builders.catalog.indexed_source import TIMELINES
from tests.builders.catalog.late_calls import LateCalls
from tests.builders.catalog.random_changes import Change, Kind, changes


NAME = f"{DB}.a"
DAILY = TimelineName(NAME, UpdatePeriod.DAILY, "dt")
CHANGES = changes((*(4 * [Kind.ADD]), *(2 * [Kind.DROP]), Kind.RENAME_TABLE, Kind.DROP_TABLE))
STEPS = st.lists(
    st.sampled_from([*(4 * ["make"]), *(4 * ["apply"]), *(3 * ["answer"]), *(4 * ["settle"]), "reopen"]),
    max_size=5,
)


class WritableSource(MemorySource):
    """A source whose tables can be altered."""

    def __init__(self) -> None:
        super().__init__()
        self.hive_version = V4_0
        self.writes: list[str] = []

    def get_table(self, db: str, name: str) -> Table:
        return super().get_table(db, name).copy()

    def alter_table(self, db: str, name: str, table: Table, **_: Any) -> None:
        super().get_table(db, name)
        self.writes.append(name)
        self.alter(name, table.tableName, table.parameters or {})


class Publishing:
    """A catalog whose loads are made at once, and whose publishing is answered when ``calls`` says so."""

    def __init__(self, source: WritableSource) -> None:
        self.source = source
        self.flaky: Any = FlakySource(source)
        self.store = MemoryStore()
        self.now_s = 1e9
        self.beats = 0
        self.outcomes = Outcomes()
        self.open()

    def open(self) -> None:
        source: Any = self.source
        self.calls = LateCalls(self.flaky)
        self.follower = TimelineFollower(TIMELINES, publishes=True)
        publisher = TimelinePublisher(
            calls=self.calls,
            follower=self.follower,
            delay_s=0,
            observer=self.outcomes,
            clock=lambda: self.now_s,
        )
        self.projection = CatalogProjection(
            source_name="s",
            source=source,
            store=self.store,
            followers=[self.follower],
            publisher=publisher,
        )
        self.projection.open()
        self.projection.load_all()

    def step(self, step: str) -> None:
        match step:
            case "make":
                self.calls.make()
            case "answer":
                self.calls.answer()
            case "apply":
                self.apply(3)
            case "settle":
                self.projection.settle()
            case "reopen":
                self.open()

    def apply(self, most: int = 1000) -> None:
        position = self.projection.position.event_id
        events = self.source.events[position : position + most]
        if events:
            self.projection.apply(events)

    def publish(self) -> None:
        """Make and answer all calls until nothing is left to do."""
        self.flaky.faults.clear()
        while True:
            self.apply()
            is_busy = self.projection.settle()
            if not (is_busy or self.follower.unpublished or self.projection.states.waiting()):
                return
            self.calls.make()
            self.calls.answer()
            self.now_s += PAUSE_MAX_S

    def require_published(self) -> None:
        """Assert that the properties of every table are those of its timelines."""
        for name in self.source.tables:
            timelines, known = self.follower.timelines, f"{DB}.{name}"
            found, parameters = timelines.timelines(known), self.source.tables[name].parameters or {}
            expected = build_table_properties(found, parameters, 0, timelines.settings(known).time_columns)
            expected = {key: value for key, value in expected.items() if "event" not in key}
            assert expected.items() <= parameters.items(), name


class Outcomes(NullObserver):
    """Records the outcomes of publishing."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def published(self, outcome: str) -> None:
        self.outcomes.append(outcome)


@pytest.fixture(autouse=True, scope="module")
def _no_waiting() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handlers.catalog.projection.STEP_WAIT_S", 0.0)
        patch.setattr("handlers.catalog.projection.ANSWER_WAIT_S", 0.0)
        yield


@pytest.fixture
def publishing() -> Publishing:
    source = WritableSource()
    source.create("a")
    source.add("a", "2015-01-01", "x")
    return Publishing(source)


@given(
    history=st.lists(st.tuples(CHANGES, STEPS), min_size=5, max_size=30),
    faults=st.lists(st.sampled_from([*(9 * [None]), *FAULTS]), max_size=30),
)
@settings(max_examples=100, deadline=None)
def test_any_history_with_slow_and_failing_writes_ends_with_published_timelines(
    history: list[tuple[Change, list[str]]], faults: list[TidelineError | None]
) -> None:
    publishing = Publishing(WritableSource())
    publishing.flaky.faults = faults
    for change, steps in history:
        change.happen(publishing.source)
        for step in steps:
            publishing.step(step)
    publishing.publish()
    publishing.require_published()
    publishing.follower.timelines.check(publishing.store)


def test_events_are_applied_while_a_write_is_not_answered(publishing: Publishing) -> None:
    assert publishing.projection.settle(), "more is to be done, but not now"
    for day in range(2, 20):
        publishing.source.add("a", f"2015-01-{day:02}", "x")
        publishing.apply()
        assert publishing.projection.position.event_id == len(publishing.source.events)
    assert publishing.source.writes == []
    publishing.publish()
    publishing.require_published()


def test_thousands_of_tables_are_published_in_small_steps_between_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handlers.catalog.timelines.publisher.PUBLISHING_S", 0.0)
    source = WritableSource()
    for number in range(1000):
        source.create(f"t{number}")
    publishing = Publishing(source)
    steps = 0
    while publishing.projection.settle():
        before = len(source.writes)
        for _ in range(100):
            publishing.calls.make()
        publishing.calls.answer()
        assert len(source.writes) - before <= BEGUN_MAX
        steps += 1
    assert (len(source.writes), publishing.follower.unpublished) == (1000, {})
    assert steps >= 1000 / BEGUN_MAX


def test_a_change_during_a_write_is_published_afterwards(publishing: Publishing) -> None:
    publishing.projection.settle()
    publishing.source.add("a", "2015-01-02", "x")
    publishing.apply()
    publishing.calls.make()
    publishing.calls.answer()
    publishing.projection.settle()
    assert publishing.outcomes.outcomes == ["written"]
    publishing.publish()
    assert publishing.source.writes == ["a", "a"]
    publishing.require_published()


def test_a_table_that_was_renamed_during_a_write_is_published_under_its_new_name(
    publishing: Publishing,
) -> None:
    publishing.projection.settle()
    publishing.source.rename("a", "b")
    publishing.apply()
    publishing.calls.make()
    publishing.calls.answer()
    publishing.publish()
    assert publishing.outcomes.outcomes[0] == "missing"
    assert publishing.source.writes == ["b"]
    publishing.require_published()


def test_a_write_under_way_when_the_state_is_read_again_is_repeated(publishing: Publishing) -> None:
    publishing.projection.settle()
    publishing.calls.make()
    publishing.projection.open()
    assert list(publishing.follower.unpublished) == [NAME]
    publishing.publish()
    assert publishing.outcomes.outcomes == ["same"], "its outcome was ignored, and its result is found"
    publishing.require_published()


def test_a_table_whose_write_fails_in_an_unexpected_way_does_not_stop_the_others(
    publishing: Publishing,
) -> None:
    for number in range(2 * BEGUN_MAX):
        publishing.source.create(f"t{number}")
        publishing.source.add(f"t{number}", "2015-01-01", "x")
    publishing.apply()
    defect: Any = ValueError("year 10000 is out of range")
    publishing.flaky.faults = [*(2 * BEGUN_MAX * [None]), defect]
    while publishing.projection.settle():
        publishing.calls.make()
        publishing.calls.answer()
    assert publishing.outcomes.outcomes == ["fault", *(2 * BEGUN_MAX * ["written"])]
    assert list(publishing.follower.unpublished) == [NAME]
    publishing.publish()
    publishing.require_published()


def test_a_migration_does_not_delay_events_and_the_form_is_kept_when_the_table_changes_meanwhile(
    publishing: Publishing,
) -> None:
    publishing.publish()
    steps = migrate(publishing.store, publishing.follower, publishing.calls, NAME, DAILY, "ranges")
    next(steps)
    publishing.source.add("a", "2015-01-02", "x")
    publishing.apply()  # a write in the former form is begun behind that of the migration
    publishing.calls.make()
    publishing.calls.answer()
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert (ended.value.value.before, ended.value.value.after) == ("ends-and-holes", "ranges")
    publishing.publish()
    assert [one.form.name for one in publishing.follower.timelines.timelines(NAME)] == ["ranges"]
    publishing.require_published()


def test_a_migration_of_a_table_that_is_dropped_meanwhile_says_so(publishing: Publishing) -> None:
    publishing.publish()
    steps = migrate(publishing.store, publishing.follower, publishing.calls, NAME, DAILY, "ranges")
    next(steps)
    publishing.calls.make()
    publishing.source.drop_table("a")
    publishing.apply()
    publishing.calls.answer()
    with pytest.raises(NotFound, match="the timeline does not exist"):
        next(steps)


def test_the_first_start_shows_signs_of_life_until_the_metastore_answers() -> None:
    source: Any = WritableSource()
    source.create("a")
    calls, beats = LateCalls(source), list[int]()

    def beat() -> None:
        beats.append(1)
        if len(beats) == 3:
            calls.make()
            calls.answer()

    projection = CatalogProjection(
        source_name="s",
        source=source,
        store=MemoryStore(),
        followers=[TimelineFollower(TIMELINES)],
        beat=beat,
        calls=calls,
    )
    assert projection.open().event_id == 1
    assert len(beats) >= 3


def test_a_metastore_that_fails_at_the_first_start_is_reported_to_the_caller() -> None:
    source: Any = WritableSource()
    source.broken = ServerFault("internal error")
    projection = CatalogProjection(
        source_name="s", source=source, store=MemoryStore(), followers=[TimelineFollower(TIMELINES)]
    )
    with pytest.raises(ServerFault):
        projection.open()
