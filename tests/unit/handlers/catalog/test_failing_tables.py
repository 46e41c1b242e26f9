"""A table that the metastore fails to serve: it is tried again with growing pauses, and never stops or delays
the others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection as projection_module
from handlers.catalog.following.loads import steps
from handlers.catalog.following.table_state import (
    FROM_PARTITIONS,
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    PAUSE_SHARE,
)
from handlers.catalog.following.table_states import STATES, TableStates
from handlers.catalog.index import partition_follower
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines import timeline_follower
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.events import Undecodable
from handlers.metastore.error_mapping import to_tideline_error
from handlers.structs.exceptions import MetaException
from handlers.structs.objects import Partition, Table
from state.errors import (
    AmbiguousCall,
    MalformedEvent,
    MetastoreUnavailable,
    NotFound,
    Refused,
    ServerFault,
    TidelineError,
    Transient,
)
from state.store.memory import MemoryStore
from tests.builders.catalog.followed_catalog import reload


RULES = Rules((Rule((f"{DB}.*",), columns=("dt",)),), lens=False)
TIMEOUT_S = 60.0
FAULTS = [
    to_tideline_error(
        MetaException(message="Timeout when executing method: get_partitions_by_names"), "get", "a"
    ),
    ServerFault("internal error"),
    MetastoreUnavailable("the connection broke before the answer was complete"),
    AmbiguousCall("not answered"),
]


class FailingSource(MemorySource):
    """A source that fails to serve some tables, after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, TidelineError] = {}
        self.took_s = 0.0
        self.now_s = 1e9
        self.tries: list[str] = []

    def clock(self) -> float:
        return self.now_s

    def get_tables(self, db: str, names: Sequence[str]) -> list[Table]:
        for name in names:
            self._fail(name)
        return super().get_tables(db, names)

    def partition_names(self, db: str, name: str) -> list[str]:
        self.tries.append(name)
        self._fail(name)
        return super().partition_names(db, name)

    def all_partitions(self, db: str, name: str) -> Iterator[Partition]:
        self.tries.append(name)
        yield from super().all_partitions(db, name)
        self._fail(name)

    def _fail(self, name: str) -> None:
        if name in self.faults:
            self.now_s += self.took_s
            raise self.faults[name]


class Followed:
    """A projection of a failing source, with the clock of the source."""

    def __init__(self, source: FailingSource, *, indexes: bool = False) -> None:
        self.source = source
        self.store = MemoryStore()
        self.indexes = indexes
        self.reopen()

    def reopen(self) -> None:
        source: Any = self.source
        self.timelines = TimelineFollower(RULES)
        self.index = PartitionFollower(PartitionRules((f"{DB}.*",) if self.indexes else ()))
        self.projection = CatalogProjection(
            source_name="s",
            source=source,
            store=self.store,
            followers=[self.timelines, self.index],
            clock=self.source.clock,
        )
        self.projection.open()

    def step(self) -> None:
        """Apply the next events, or settle."""
        events = self.source.events[self.projection.position.event_id :]
        if events:
            self.projection.apply(events)
        else:
            self.projection.settle()

    def following(self) -> set[str]:
        states = self.projection.states
        return {name for name in states.list_followed() if not states.is_waiting(name)} - {
            *states.quarantined()
        }


@pytest.fixture
def source() -> FailingSource:
    made = FailingSource()
    for name in ("a", "b", "c"):
        made.create(name)
        made.add(name, "2015-01-01", "x")
    return made


@pytest.mark.parametrize("indexes", [False, True])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)
def test_a_table_that_the_metastore_fails_to_serve_delays_no_other_and_is_loaded_when_the_cause_has_gone(
    source: FailingSource, fault: TidelineError, indexes: bool
) -> None:
    source.faults["a"] = fault
    followed = Followed(source, indexes=indexes)
    for day in range(2, 22):
        source.add("b", f"2015-01-{day:02}", "x")
        followed.step()
        assert followed.projection.position.event_id == len(source.events)
    assert followed.following() == {f"{DB}.b", f"{DB}.c"}
    assert followed.projection.quarantined() == ()
    assert len(followed.timelines.timelines.timelines(f"{DB}.b")[0].runs) == 1
    (postponed,) = followed.projection.states.postponed().values()
    assert postponed.code == fault.code
    followed.reopen()
    assert followed.projection.states.postponed() == {f"{DB}.a": postponed}, "a restart does not forget it"
    source.faults.clear()
    source.now_s = postponed.next_s
    followed.step()
    assert followed.following() == {f"{DB}.a", f"{DB}.b", f"{DB}.c"}
    followed.reopen()
    assert followed.projection.states.postponed() == {}


def test_a_table_that_times_out_takes_at_most_a_tenth_of_the_time(source: FailingSource) -> None:
    source.faults["a"] = MetastoreUnavailable("no answer")
    source.took_s = TIMEOUT_S
    followed = Followed(source)
    source.tries.clear()
    start_s = source.now_s
    while source.now_s < start_s + 86_400:
        followed.step()
        source.now_s += 1
    tries = source.tries.count("a")
    assert 86_400 / (PAUSE_MAX_S + TIMEOUT_S) - 1 <= tries <= 86_400 / TIMEOUT_S / PAUSE_SHARE
    assert followed.following() == {f"{DB}.b", f"{DB}.c"}


def test_an_outage_of_the_metastore_pauses_all_loads_and_no_table_is_postponed_for_it(
    source: FailingSource,
) -> None:
    followed = Followed(source)
    source.broken = MetastoreUnavailable("away")
    source.add("a", "2015-01-02", "x")
    for _ in range(20):
        followed.step()
    assert followed.projection.position.event_id == len(source.events), "events are applied meanwhile"
    assert followed.projection.states.postponed() == {}
    source.broken = None
    source.now_s += PAUSE_MAX_S
    followed.projection.load_all()
    assert followed.following() == {f"{DB}.a", f"{DB}.b", f"{DB}.c"}


def test_many_failing_tables_do_not_take_all_the_time(source: FailingSource) -> None:
    for number in range(30):
        source.create(f"t{number}")
        source.faults[f"t{number}"] = MetastoreUnavailable("no answer")
    source.took_s = TIMEOUT_S
    followed = Followed(source)
    source.tries.clear()
    start_s, steps = source.now_s, 0
    while source.now_s < start_s + 7200:
        followed.step()
        source.now_s += 1
        steps += 1
    assert followed.following() == {f"{DB}.a", f"{DB}.b", f"{DB}.c"}
    assert steps > 7200 / 3, "events are applied in the rest of the time"


def test_a_batch_of_tables_that_cannot_be_surveyed_is_loaded_one_by_one(source: FailingSource) -> None:
    source.create("plain", ())
    source.faults["b"] = ServerFault("internal error")
    followed = Followed(source)
    followed.step()
    assert followed.following() == {f"{DB}.a", f"{DB}.c"}
    assert set(followed.projection.states.waiting()) == {f"{DB}.b"}


def test_a_rebuild_by_hand_does_not_wait_for_the_next_try(source: FailingSource) -> None:
    source.faults["a"] = ServerFault("internal error")
    followed = Followed(source)
    followed.step()
    with pytest.raises(ServerFault):
        reload(followed.projection, f"{DB}.a")
    source.faults.clear()
    reload(followed.projection, f"{DB}.a")
    assert f"{DB}.a" in followed.following()


@given(
    tries=st.lists(st.tuples(st.floats(0, 600), st.integers(0, 10_000)), max_size=30),
    back_s=st.integers(1, 10**9),
)
def test_pauses_grow_with_the_tries_and_their_duration_and_end(
    tries: list[tuple[float, int]], back_s: int
) -> None:
    store, states, now_s = MemoryStore(), TableStates(), 1e9
    with store.transaction() as txn:
        states.request_load(txn, "db.a", "snapshot")
        for number, (took_s, later_s) in enumerate(tries):
            failed = states.postpone_load(txn, "db.a", ServerFault("?"), took_s, now_s)
            pause_s = failed.next_s - now_s
            assert pause_s == min(PAUSE_MAX_S, max(PAUSE_MIN_S * 2**number, int(PAUSE_SHARE * took_s)))
            assert states.next_load(now_s) is None
            assert states.next_load(now_s + pause_s) == ("db.a", "snapshot")
            assert states.next_load(now_s + pause_s, failed=False) is None
            if back_s > PAUSE_MAX_S:
                assert states.next_load(now_s - back_s) is not None, "a clock that was set back"
            now_s += later_s
    reopened = TableStates()
    reopened.open(store)
    assert reopened.postponed() == states.postponed()
    assert reopened.waiting() == states.waiting()


@given(st.lists(st.sampled_from(["snapshot", "changed", "unsure", "asked"]), min_size=1))
def test_doubt_is_not_replaced_by_a_reason_that_trusts_properties(reasons: list[str]) -> None:
    store, states = MemoryStore(), TableStates()
    with store.transaction() as txn:
        for reason in reasons:
            states.request_load(txn, "db.a", reason)
    doubts = [reason for reason in reasons if reason in FROM_PARTITIONS]
    assert states.waiting()["db.a"] == (doubts or reasons)[-1]


def test_a_renamed_table_keeps_the_failures_of_its_load(source: FailingSource) -> None:
    source.faults["a"] = ServerFault("no answer")
    followed = Followed(source)
    followed.step()
    (before,) = followed.projection.states.postponed().values()
    source.faults = {"d": ServerFault("no answer")}
    source.rename("a", "d")
    followed.step()
    assert followed.projection.states.postponed() == {f"{DB}.d": before}
    state = followed.projection.states.state(f"{DB}.d")
    assert state is not None
    assert (state.name, state.describe()["event_id"]) == ("waiting", len(source.events))


def test_large_tables_are_loaded_in_turns_and_settling_says_that_more_is_due(
    source: FailingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PIECE", 3)
    monkeypatch.setattr(projection_module, "LOADING_S", 0.0)
    for name in ("a", "b"):
        for day in range(2, 22):
            source.add(name, f"2015-01-{day:02}", "x")
    followed = Followed(source, indexes=True)
    shares = []
    while followed.projection.settle():
        under_load = followed.projection.states.under_load()
        shares.append([under_load[one].done if one in under_load else 0 for one in (f"{DB}.a", f"{DB}.b")])
    assert [6, 3] in shares, "one piece each"
    assert all(abs(one - other) <= 3 for one, other in shares if one and other)
    assert followed.following() == {f"{DB}.a", f"{DB}.b", f"{DB}.c"}


def test_the_content_of_a_dropped_table_is_removed_in_small_steps_between_batches(
    source: FailingSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_follower, "SWEPT", 2)
    monkeypatch.setattr(timeline_follower, "SWEPT", 2)
    for day in range(2, 22):
        source.add("a", f"2015-01-{day:02}", "x")
    followed = Followed(source, indexes=True)
    followed.projection.load_all()
    source.drop_table("a")
    followed.step()
    left = [len(list(followed.store.scan_keys(b"", None)))]
    while followed.projection.settle():
        left.append(len(list(followed.store.scan_keys(b"", None))))
    steps = [before - after for before, after in itertools.pairwise(left)]
    assert len(steps) > 10
    assert max(steps) <= 5
    followed.index.check()
    assert not any(b"2015-01-02" in key for key in followed.store.scan_keys(b"", None))


def test_a_reload_that_was_requested_is_done_between_batches_and_before_other_loads(
    source: FailingSource,
) -> None:
    followed = Followed(source)
    projection = followed.projection
    projection.load_all()
    with followed.store.transaction() as txn:
        for name in ("b", "c"):
            projection.states.request_load(txn, f"{DB}.{name}", "changed")
    source.add("a", "2015-01-02", "x")
    assert not projection.continue_reload(f"{DB}.a")
    assert projection.states.next_load(0) == (f"{DB}.a", "asked")
    followed.step()
    assert projection.position.event_id == len(source.events)
    assert projection.continue_reload(f"{DB}.a")
    source.faults["a"] = ServerFault("no answer")
    assert not projection.continue_reload(f"{DB}.a")
    followed.step()
    with pytest.raises(Transient, match="cannot be loaded now"):
        projection.continue_reload(f"{DB}.a")
    assert not projection.continue_reload(f"{DB}.unknown")
    followed.step()
    with pytest.raises(NotFound):
        projection.continue_reload(f"{DB}.unknown")


def test_a_quarantined_table_comes_back_by_itself_when_the_cause_has_gone(source: FailingSource) -> None:
    followed = Followed(source)
    followed.projection.load_all()
    source.log(Undecodable, "ADD_PARTITION", "a", error=MalformedEvent("its list is missing"))
    followed.step()
    assert followed.projection.quarantined() == (f"{DB}.a",)
    source.faults["a"] = Refused("no permission")
    tries = []
    for _ in range(50):
        source.now_s += PAUSE_MIN_S
        before = len(source.tries)
        followed.step()
        tries += source.tries[before:]
        assert followed.projection.quarantined() == (f"{DB}.a",)
        state = followed.projection.states.state(f"{DB}.a")
        assert state is not None
        assert state.describe()["next_try_s"] > source.now_s
    assert 3 <= len(tries) <= 6, "pauses double"
    followed.reopen()
    source.faults.clear()
    source.now_s += PAUSE_MAX_S
    followed.step()
    assert followed.projection.quarantined() == ()
    assert followed.following() == {f"{DB}.{name}" for name in "abc"}


def test_a_table_that_a_former_release_quarantined_is_loaded_again(source: FailingSource) -> None:
    followed = Followed(source)
    followed.projection.load_all()
    name = f"{DB}.a"
    with followed.store.transaction() as txn:
        followed.projection.states.quarantine(txn, name, MalformedEvent("broken"), 3)
        state = followed.projection.states.state(name)
        assert state is not None
        txn.put(STATES + name.encode(), replace(state, load=None, postponed=None).to_bytes())
    followed.reopen()
    assert followed.projection.quarantined() == (name,)
    followed.step()
    assert followed.projection.quarantined() == ()


@pytest.mark.parametrize("indexes", [False, True])
def test_a_table_whose_load_fails_in_an_unexpected_way_is_quarantined_and_delays_no_other(
    source: FailingSource, indexes: bool
) -> None:
    defect: Any = ValueError("year 10000 is out of range")
    source.faults["a"] = defect
    followed = Followed(source, indexes=indexes)
    followed.projection.load_all()
    assert followed.following() == {f"{DB}.b", f"{DB}.c"}
    assert "year 10000" in followed.projection.states.quarantined()[f"{DB}.a"]
    source.faults.clear()
    source.now_s += PAUSE_MAX_S
    followed.projection.load_all()
    assert followed.following() == {f"{DB}.a", f"{DB}.b", f"{DB}.c"}
