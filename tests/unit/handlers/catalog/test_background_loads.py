"""Loads whose metastore calls are slow or fail: events are applied meanwhile, and the result equals that of a
rebuild."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection as projection_module
from handlers.catalog.following import missed_events, table_info
from handlers.catalog.following.background import CallThread, await_in_steps
from handlers.catalog.following.loads import steps
from handlers.catalog.timelines import timeline_load
from state.errors import ServerFault, TidelineError
from state.timelines.table_properties import TIME_COLUMNS
from tests.builders.catalog.flaky_source import FAULTS
from tests.builders.catalog.followed_catalog import content
from tests.builders.catalog.indexed_source import KINDS, expected
from tests.builders.catalog.indexed_source import rebuilt as rebuilt_catalog
from tests.builders.catalog.late_catalog import LateCatalog
from tests.builders.catalog.random_changes import DAYS, Change, Kind, changes


CHANGES = changes((*KINDS, Kind.UNLISTED), (*DAYS, "9999-12-31", "latest"))
STEPS = st.lists(
    st.sampled_from(
        [*(4 * ["make"]), *(4 * ["apply"]), *(3 * ["answer"]), *(4 * ["settle"]), "reopen", "reload"]
    ),
    max_size=5,
)


class Slow(LateCatalog):
    """Steps that a history consists of."""

    events_max = 3

    def step(self, step: str) -> None:
        match step:
            case "make":
                self.calls.make()
            case "answer":
                self.calls.answer()
            case "apply":
                self.apply()
            case "settle":
                self.projection.settle()
            case "reopen":
                self.open()
            case "reload" if self.source.tables:
                self.projection.request_load(f"{DB}.{min(self.source.tables)}")


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "PIECE", 2)
        patch.setattr(timeline_load, "WRITTEN", 3)
        patch.setattr(projection_module, "STEP_WAIT_S", 0.0)
        patch.setattr(projection_module, "ANSWER_WAIT_S", 0.0)
        yield


@given(
    before=st.lists(CHANGES, max_size=12),
    after=st.lists(st.tuples(CHANGES, STEPS), min_size=10, max_size=40),
    whole=st.booleans(),
    faults=st.lists(st.sampled_from([*(15 * [None]), *FAULTS]), max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_any_history_with_slow_and_failing_calls_ends_like_a_rebuild(
    before: list[Change],
    after: list[tuple[Change, list[str]]],
    whole: bool,
    faults: list[TidelineError | None],
) -> None:
    source = MemorySource()
    source.parameters = {TIME_COLUMNS: "dt"} if whole else {}
    for one in before:
        one.happen(source)
    slow = Slow(source)
    slow.flaky.faults = faults
    for one, moves in after:
        one.happen(source)
        for step in moves:
            slow.step(step)
    slow.finish()
    fresh = rebuilt_catalog(source)
    assert slow.held() == expected(source)
    assert content(slow.timelines.timelines) == content(fresh.timelines.timelines)
    assert slow.projection.quarantined() == ()
    slow.index.check()
    slow.timelines.timelines.check(slow.store)


@pytest.fixture
def slow() -> Slow:
    source = MemorySource()
    for name in ("a", "b"):
        source.create(name)
        source.add(name, "2015-01-01", "x")
    made = Slow(source)
    while not made.projection.is_surveyed:
        made.calls.make()
        made.calls.answer()
        made.projection.settle()
    return made


def test_events_are_applied_while_the_metastore_does_not_answer(slow: Slow) -> None:
    assert slow.projection.settle(), "more is to be done, but not now"
    for day in range(2, 20):
        slow.source.add("a", f"2015-01-{day:02}", "x")
        slow.apply()
        slow.projection.settle()
        assert slow.projection.position.event_id == len(slow.source.events)
    assert slow.projection.states.waiting().keys() == {f"{DB}.a", f"{DB}.b"}


def test_events_between_the_listing_and_its_storing_are_applied_on_top_of_it(slow: Slow) -> None:
    slow.projection.settle()
    slow.calls.make()
    slow.source.drop("a", "2015-01-01", "x")
    slow.source.add("a", "2015-01-02", "x")
    slow.source.describe("a", ("2015-01-02", "x"), {"numRows": "7"})
    slow.apply()
    slow.calls.answer()
    slow.finish()
    assert slow.held() == expected(slow.source)
    assert slow.projection.states.get(f"{DB}.a") is not None


def test_a_listing_of_a_table_that_was_dropped_and_created_meanwhile_is_not_used(slow: Slow) -> None:
    slow.projection.settle()
    slow.calls.make()
    slow.source.drop_table("a")
    slow.source.create("a")
    slow.apply()
    slow.calls.answer()
    slow.finish()
    assert slow.held().keys() == {f"{DB}.b"}


def test_reading_the_state_again_does_not_begin_the_load_under_way_again(slow: Slow) -> None:
    for _ in range(20):
        slow.projection.settle()
        slow.calls.make()
        assert slow.projection.read_state()
        slow.calls.answer()
    assert not slow.projection.states.waiting()


def test_a_listing_of_a_table_that_was_renamed_meanwhile_is_not_used(slow: Slow) -> None:
    slow.projection.settle()
    slow.calls.make()
    slow.source.rename("a", "c")
    slow.apply()
    slow.calls.answer()
    slow.projection.settle()
    assert slow.projection.states.state(f"{DB}.a") is None
    slow.finish()
    assert slow.held().keys() == {f"{DB}.b", f"{DB}.c"}


def test_more_missed_events_than_are_kept_wait_for_the_listing(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missed_events, "MISSED_MAX", 3)
    slow.projection.settle()
    for day in range(2, 5):
        slow.source.add("a", f"2015-01-{day:02}", "x")
    slow.apply()
    slow.source.add("a", "2015-01-05", "x")
    beats = []

    def answer() -> None:
        beats.append(1)
        slow.calls.make()
        slow.calls.answer()

    slow.projection._beat = answer  # noqa: SLF001 - what happens in other threads meanwhile
    slow.apply()
    assert beats
    slow.finish()
    assert slow.held() == expected(slow.source)


def test_computing_a_large_listing_gives_way_to_events(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(slow.projection.turns, "give_way", lambda: pauses.append(1))
    monkeypatch.setattr(table_info, "PARSED_BETWEEN_PAUSES", 10)
    for day in range(100):
        slow.source.add("a", f"2015-{day // 28 + 1:02}-{day % 28 + 1:02}", "x")
    slow.finish()
    passes = 2
    assert len(pauses) >= passes * 100 // 10
    assert slow.held() == expected(slow.source)


def test_the_thread_of_calls_makes_them_in_order_and_returns_results_and_errors() -> None:
    closed = threading.Event()
    source: Any = SimpleNamespace(close=closed.set)
    calls, gate, made = CallThread(source, "calls"), threading.Event(), []
    first = calls.submit(lambda given: gate.wait(10) and given is source)
    second = calls.submit(lambda _: made.append(first.done()))

    def fail(_: object) -> None:
        raise ServerFault("no")

    third = calls.submit(fail)
    steps = await_in_steps(first)
    next(steps)
    gate.set()
    for _ in steps:
        pass
    assert first.result() is True
    with pytest.raises(ServerFault):
        third.result(10)
    assert second.result(10) is None
    assert made == [True]
    calls.close()
    calls.close()
    assert closed.wait(10)


def test_a_thread_of_calls_that_was_never_used_closes_its_connection_at_once() -> None:
    closed: list[int] = []
    source: Any = SimpleNamespace(close=lambda: closed.append(1))
    CallThread(source, "calls").close()
    assert closed == [1]


def test_what_was_read_of_a_table_is_not_used_for_another_that_takes_its_name_and_is_to_be_loaded() -> None:
    source = MemorySource()
    for name in ("a", "b"):
        source.create(name)
        source.add(name, "2015-01-01", name)
    slow = Slow(source)
    slow.finish()
    slow.step("reload")
    slow.step("settle")
    for old, new in (("a", "swapped"), ("b", "a"), ("swapped", "b")):
        source.rename(old, new)
    slow.apply()
    slow.step("reload")
    slow.finish()
    assert slow.held() == expected(source)
