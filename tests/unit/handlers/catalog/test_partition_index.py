"""The partition index as a follower: any history, with tables loaded in pieces at any time, ends equal to the
source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection
from handlers.catalog.following.loads import steps
from handlers.catalog.following.table_info import describe_table
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.events import Embedded, PartitionsAdded
from handlers.structs.objects import FieldSchema, Partition
from state.errors import MalformedEvent, MetastoreUnavailable, StateCorrupt
from state.partitions.index.lookups import TableLookups
from state.store.memory import MemoryStore
from tests.builders.catalog.followed_catalog import content, reload
from tests.builders.catalog.indexed_source import KINDS, Indexed, expected, rebuilt
from tests.builders.catalog.random_changes import DAYS, Change, Kind, changes, happen_meanwhile


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of a few partitions are loaded in pieces, and one piece at a time."""
    monkeypatch.setattr(steps, "PIECE", 2)
    monkeypatch.setattr(projection, "LOADING_S", 0.0)


if TYPE_CHECKING:
    from collections.abc import Callable


CHANGES = changes(KINDS)


def request_load(indexed: Indexed) -> None:
    if indexed.source.tables:
        indexed.projection.request_load(f"{DB}.{min(indexed.source.tables)}")


STEPS: list[Callable[[Indexed], object]] = [
    lambda _: None,
    Indexed.follow,
    Indexed.reopen,
    Indexed.lose_the_position,
    request_load,
    lambda indexed: indexed.projection.settle(),
    lambda indexed: indexed.apply(indexed.projection.position.event_id + 1),
]


@given(
    before=st.lists(CHANGES, max_size=15),
    during=st.lists(CHANGES, max_size=8),
    after=st.lists(st.tuples(CHANGES, st.sampled_from(STEPS)), max_size=30),
    apart=st.booleans(),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_ends_equal_to_the_source(
    before: list[Change],
    during: list[Change],
    after: list[tuple[Change, Callable[[Indexed], None]]],
    apart: bool,
) -> None:
    source = MemorySource()
    source.create("a")
    for day in DAYS[:5]:
        source.add("a", day, "0")  # enough for several pieces
    for one in before:
        one.happen(source)
    happen_meanwhile(source, during)
    indexed = Indexed(source, own=MemoryStore() if apart else None)
    for one, then in after:
        one.happen(source)
        then(indexed)
    source.meanwhile = lambda: None
    indexed.follow()
    indexed.follow()
    assert indexed.held() == expected(source)
    assert content(indexed.timelines.timelines) == content(rebuilt(source).timelines.timelines)
    indexed.projection.apply(source.events)
    assert indexed.held() == expected(source), "repeated events change nothing"
    indexed.reopen()
    assert indexed.held() == expected(source), "the store contains what was in memory"


@pytest.fixture
def source() -> MemorySource:
    made = MemorySource()
    made.create("a")
    for day in DAYS:
        made.add("a", day, "x")
    return made


def test_a_load_continues_after_a_restart_at_the_next_piece(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()
    indexed.projection.settle()
    progress = indexed.projection.states.progress(f"{DB}.a")
    assert progress is not None
    assert (progress.done, progress.total) == (4, 6)
    indexed.reopen()
    fetched = []
    fetch = source.get_partitions

    def get_partitions(db: str, name: str, names: list[str]) -> list[Partition]:
        fetched.extend(names)
        return fetch(db, name, names)

    source.get_partitions = get_partitions  # type: ignore[method-assign,assignment]
    indexed.follow()
    assert fetched == [f"dt={day}/x=x" for day in DAYS[4:]]
    assert indexed.held() == expected(source)
    assert indexed.projection.states.progress(f"{DB}.a") is None


def test_answers_show_the_previous_content_until_a_load_is_complete(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.follow()
    before = indexed.held()
    indexed.projection.request_load(f"{DB}.a")
    indexed.projection.settle()
    assert indexed.projection.states.progress(f"{DB}.a") is not None
    assert indexed.held() == before
    indexed.follow()
    assert indexed.held() == before


def test_events_reach_the_staged_content(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()
    source.drop("a", DAYS[0], "x")
    source.add("a", DAYS[0], "a")
    source.alter_partition("a", (DAYS[1], "x"), {"numRows": "7"})
    source.describe("a", (DAYS[1], "x"), {"COLUMN_STATS_ACCURATE": "{}"})
    indexed.follow()
    assert indexed.held() == expected(source)


def test_a_table_whose_columns_change_while_it_is_loaded_is_loaded_from_its_beginning(
    source: MemorySource,
) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()
    source.cascade("a")
    indexed.follow()
    assert indexed.held() == expected(source)


@pytest.mark.parametrize("kind", ["alter", "cascade", "drop"])
def test_a_change_between_two_pieces_is_not_lost_when_its_event_arrives_after_the_load(
    source: MemorySource, kind: str
) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()
    if kind == "alter":
        source.alter_partition("a", (DAYS[0], "x"), {"numRows": "7"})
    elif kind == "cascade":
        source.cascade("a")
    else:
        source.drop("a", DAYS[0], "x")
    indexed.projection.load_all()
    assert indexed.projection.states.waiting() == {}
    indexed.follow()
    assert indexed.held() == expected(source)


def test_no_follower_takes_a_table_whose_staged_content_is_refused(source: MemorySource) -> None:
    indexed = Indexed(source)
    before = indexed.timelines.timelines.tables()
    while (loaded := indexed.projection.states.progress(f"{DB}.a")) is None or loaded.done < len(DAYS) - 2:
        indexed.projection.settle()  # the last piece is left, in which timelines take part
    columns = source.tables["a"].sd.cols or []
    source.tables["a"].sd.cols = [*columns, FieldSchema(name="new", type="int")]
    while indexed.projection.states.progress(f"{DB}.a") is not None:
        indexed.projection.settle()
    assert indexed.projection.states.is_waiting(f"{DB}.a"), "it begins again"
    assert indexed.timelines.timelines.tables() == before == []


@pytest.mark.parametrize("piece", [2, 500])
@pytest.mark.parametrize("whole", [False, True])
def test_a_table_that_fits_into_one_piece_is_listed_once_for_timelines_and_index(
    source: MemorySource, monkeypatch: pytest.MonkeyPatch, whole: bool, piece: int
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(steps, "PIECE", piece)
    monkeypatch.setattr(TimelineFollower, "names_suffice", lambda *_: not whole)
    for name in ("partition_names", "get_partitions", "all_partitions"):
        monkeypatch.setattr(source, name, _noting(calls, name, getattr(source, name)))
    indexed = Indexed(source)
    indexed.follow()
    made = list(calls)
    assert indexed.held() == expected(source)
    assert content(indexed.timelines.timelines) == content(rebuilt(source).timelines.timelines)
    pieces = -(-len(source.partitions["a"]) // piece)
    again = [] if pieces == 1 else ["all_partitions" if whole else "partition_names"]
    assert made == ["partition_names", *(pieces * ["get_partitions"]), *again]


def _noting(calls: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        calls.append(name)
        return function(*arguments)

    return call


def test_columns_that_change_and_change_back_cause_a_load_from_the_beginning(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()
    before = source.tables["a"]
    source.cascade("a")
    indexed.projection.settle()
    source.tables["a"] = before
    source.alter("a", "a", {})
    for values, partition in source.partitions["a"].items():
        source.partitions["a"][values] = partition.copy()
        source.partitions["a"][values].sd.cols = before.sd.cols
    indexed.follow()
    assert indexed.held() == expected(source)


def test_columns_that_change_and_change_back_between_two_pieces_leave_no_stale_partition(
    source: MemorySource,
) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()
    before = source.tables["a"]
    source.cascade("a")
    source.tables["a"] = before
    source.alter("a", "a", {})  # without CASCADE: the partitions keep the added column
    indexed.follow()
    assert indexed.held() == expected(source)


def test_an_indexed_table_that_is_renamed_out_of_the_rules_is_forgotten(source: MemorySource) -> None:
    indexed = Indexed(source, PartitionRules((f"{DB}.a",)))
    indexed.follow()
    source.rename("a", "b")
    indexed.follow()
    assert indexed.follower.index.tables() == []
    assert indexed.timelines.timelines.tables() == [f"{DB}.b"], "the timelines still follow it"


def test_partition_names_are_not_enough_to_load_the_index(source: MemorySource) -> None:
    assert not Indexed(source).follower.names_suffice(describe_table(source.tables["a"]))


def test_changed_types_of_partition_columns_cause_a_load(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.follow()
    source.tables["a"].partitionKeys = [
        FieldSchema(name="dt", type="date"),
        FieldSchema(name="x", type="string"),
    ]
    source.alter("a", "a", {})
    indexed.follow()
    assert [column.declared for column in indexed.follower.index.columns(f"{DB}.a")] == ["date", "string"]
    lookups = TableLookups(indexed.follower.index, f"{DB}.a")
    assert lookups.by_filter("dt >= date '2015-01-03'").count() == 4
    assert indexed.held() == expected(source)


def test_a_partition_that_is_too_long_quarantines_its_table(source: MemorySource) -> None:
    source.create("b")
    indexed = Indexed(source)
    indexed.follow()
    source.add("a", "x" * 7000, "x")
    source.add("b", "1", "2")
    indexed.follow()
    assert indexed.projection.quarantined() == (f"{DB}.a",)
    assert indexed.held()[f"{DB}.b"] == expected(source)[f"{DB}.b"]
    reload(indexed.projection, f"{DB}.a")
    assert indexed.projection.quarantined() == (f"{DB}.a",), "it is still too long"


def test_an_unusable_event_while_a_table_is_loaded_causes_a_load_from_the_beginning(
    source: MemorySource,
) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()

    def broken(_: str) -> Any:
        raise MalformedEvent("no partition")

    source.log(PartitionsAdded, "ADD_PARTITION", "a", owner=None, partitions=(Embedded("?", broken),))
    indexed.follow()
    assert indexed.projection.quarantined() == ()
    assert indexed.held() == expected(source)


def test_an_unavailable_source_in_the_middle_of_a_load_costs_one_piece(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.projection.settle()

    def away() -> None:
        source.broken = MetastoreUnavailable("away")
        raise source.broken

    source.meanwhile = away
    indexed.projection.settle()
    source.meanwhile, source.broken = lambda: None, None
    indexed.reopen()
    progress = indexed.projection.states.progress(f"{DB}.a")
    assert progress is not None
    assert progress.done == 2
    indexed.follow()
    assert indexed.held() == expected(source)


def test_an_abandoned_index_is_not_trusted_when_it_is_used_again(source: MemorySource) -> None:
    own = MemoryStore()
    indexed = Indexed(source, own=own)
    indexed.follow()
    left = Indexed(source, PartitionRules(), store=indexed.store)
    source.drop("a", DAYS[0], "x")
    left.follow()
    assert not left.follower.indexed
    again = Indexed(source, store=indexed.store, own=own)
    again.follow()
    assert again.held() == expected(source)


def test_tables_excluded_by_the_rules_are_not_indexed(source: MemorySource) -> None:
    source.create("plain", ())
    source.create("wide", [f"c{number}" for number in range(65)])
    source.create("tmp_b")
    indexed = Indexed(source, PartitionRules((f"{DB}.*",), ("*.tmp_*",)))
    indexed.follow()
    assert indexed.follower.indexed.items() == [(f"{DB}.a", 6)]


def test_a_payload_without_its_dictionary_is_corrupt(source: MemorySource) -> None:
    indexed = Indexed(source)
    indexed.follow()
    with indexed.store.transaction() as txn:
        txn.delete_range(b"pd/", b"pd0")
    indexed.reopen()
    with pytest.raises(StateCorrupt):
        indexed.held()


def test_a_column_added_with_cascade_reaches_the_partitions_of_a_table_renamed_in_the_same_batch(
    source: MemorySource,
) -> None:
    indexed = Indexed(source)
    indexed.follow()
    source.cascade("a")
    source.rename("a", "b")
    indexed.apply()
    assert f"{DB}.b" in {*indexed.projection.states.waiting(), *indexed.projection.states.list_followed()}
    indexed.follow()
    assert indexed.held() == expected(source)


@given(st.lists(st.tuples(changes((Kind.ADD, Kind.CASCADE, Kind.DROP)), st.integers(0, 2)), max_size=6))
@settings(max_examples=100, deadline=None)
def test_one_batch_of_any_changes_and_renames_ends_like_a_rebuild(batch: list[tuple[Change, int]]) -> None:
    source = MemorySource()
    for name in ("a", "b"):
        source.create(name)
        source.add(name, DAYS[0], "0")
    indexed = Indexed(source)
    indexed.follow()
    for one, new in batch:
        one.happen(source)
        Change(Kind.RENAME_TABLE, one.table, one.day, new).happen(source)
    indexed.apply()
    indexed.follow()
    assert indexed.held() == expected(source)
