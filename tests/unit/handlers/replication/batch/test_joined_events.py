"""Which changes of partitions are applied by one call, and what happens if the target refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.events import Event, PartitionsAdded, PartitionsDropped, Undecodable
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.batch.merged_events import DROPS_MIN, find_joinable, join
from state.errors import InvalidRequest, MalformedEvent, ServerFault, TidelineError
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import (
    a_partition,
    a_table,
    aborted,
    allocated,
    altered,
    changed,
    committed,
    created,
    dropped,
    embedded,
    partition_altered,
    partitions_added,
    partitions_dropped,
    statistics,
)


def joined(first: Event, *coming: Event, writers: Sequence[int] = ()) -> list[int]:
    """Return the ids of the events that are applied with the first."""
    assert isinstance(first, PartitionsAdded | PartitionsDropped) or first.kind == "ALTER_PARTITION"
    return [event.event_id for event in find_joinable(first, coming, set(writers))]  # type: ignore[arg-type]


def test_added_partitions_of_one_table_are_joined() -> None:
    assert joined(*(partitions_added(at, "a", str(at)) for at in (1, 2, 3))) == [1, 2, 3]


def test_dropped_partitions_of_one_table_are_joined() -> None:
    events = [partitions_dropped(at, "a", str(at)) for at in range(1, DROPS_MIN + 1)]
    assert joined(*events) == list(range(1, DROPS_MIN + 1))
    assert joined(*events[:-1]) == [1], "single drops take less time than one of some"


def test_altered_partitions_of_one_table_are_joined() -> None:
    assert joined(partition_altered(1, "1"), partition_altered(2, "2")) == [1, 2]


@pytest.mark.parametrize(
    "between",
    [
        altered(2, "b"),
        committed(2),
        aborted(2),
        created(2, "b"),
        dropped(2, "b"),
        allocated(2, 7, 1, "b"),
        statistics(2, "b"),
        partitions_dropped(2, "b", "1"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_of_other_tables_and_transactions_may_lie_between(between: Event) -> None:
    assert joined(partitions_added(1, "a", "1"), between, partitions_added(3, "a", "3")) == [1, 3]


@pytest.mark.parametrize(
    "between",
    [
        altered(2, "a"),
        changed(2, a_table("a"), a_table("b")),
        changed(2, a_table("b"), a_table("a")),
        dropped(2, "a"),
        created(2, "a"),
        allocated(2, 7, 1, "a"),
        statistics(2, "a"),
        partitions_dropped(2, "a", "1"),
        partition_altered(2, "1", "a"),
        Undecodable(event_id=2, time_s=0, kind="ALTER_TABLE", db="shop", error=MalformedEvent("unreadable")),
    ],
    ids=lambda event: f"{type(event).__name__} of {event.table}",
)
def test_nothing_is_joined_across_an_event_that_may_concern_the_table(between: Event) -> None:
    assert joined(partitions_added(1, "a", "1"), between, partitions_added(3, "a", "3")) == [1]


@pytest.mark.parametrize("end", [committed(2, 7), aborted(2, 7)], ids=["commit", "abort"])
def test_nothing_is_joined_across_the_end_of_a_transaction_that_writes_into_the_table(end: Event) -> None:
    events = (partitions_added(1, "a", "1"), end, partitions_added(3, "a", "3"))
    assert joined(*events, writers=[7]) == [1]
    assert joined(*events, writers=[8]) == [1, 3]


def test_a_partition_is_altered_only_once_by_one_call() -> None:
    """A restart may join other events, and readers would see the partition's older state again."""
    events = partition_altered(1, "1"), partition_altered(2, "2"), partition_altered(3, "1", note="2")
    assert joined(*events) == [1, 2]


def test_alterations_under_different_write_ids_are_not_joined() -> None:
    assert joined(partition_altered(1, "1", write_id=4), partition_altered(2, "2", write_id=5)) == [1]


def test_a_truncation_or_rename_or_move_of_a_partition_is_applied_by_itself() -> None:
    moved = a_partition("2")
    moved.sd.location = "file:/elsewhere"
    for second in (
        partition_altered(2, "2", truncate=True),
        replace(partition_altered(2, "2"), after=(embedded(a_partition("9")),)),
        replace(partition_altered(2, "2"), after=(embedded(moved),)),
    ):
        assert joined(partition_altered(1, "1"), second) == [1]
        assert joined(second, partition_altered(3, "3")) == [2]


def test_one_call_has_no_more_partitions_than_the_metastore_takes_at_once() -> None:
    half = tuple(map(str, range(BATCH // 2)))
    assert joined(*(partitions_added(at, "a", *half) for at in (1, 2, 3))) == [1, 2]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["add", "drop", "alter"]), st.sampled_from("xy"))
    )
)
def test_the_effect_of_joined_events_is_that_of_each_by_itself(changes: list[tuple[str, str, str]]) -> None:
    events = [build(at, *change) for at, change in enumerate(changes, 1)]
    done: set[int] = set()
    together: dict[tuple[str | None, str], int] = {}
    for place, event in enumerate(events):
        if event.event_id not in done:
            found = find_joinable(event, events[place + 1 :], ())
            done |= {each.event_id for each in found}
            apply_to(together, join(found))
    one_by_one: dict[tuple[str | None, str], int] = {}
    for event in events:
        apply_to(one_by_one, event)
    assert together == one_by_one


def build(at: int, table: str, change: str, value: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Return an event."""
    match change:
        case "add":
            return partitions_added(at, table, value)
        case "drop":
            return partitions_dropped(at, table, value)
    return partition_altered(at, value, table, note=str(at))


def apply_to(partitions: dict[tuple[str | None, str], int], event: Event) -> None:
    """Apply an event to a model: the note of each partition."""
    if isinstance(event, PartitionsAdded):
        for item in event.partitions:
            partitions.setdefault((event.table, item.value.values[0]), 0)
    elif isinstance(event, PartitionsDropped):
        for spec in event.specs:
            partitions.pop((event.table, spec["dt"]), None)
    else:
        for item in event.after:  # type: ignore[attr-defined]
            if (event.table, item.value.values[0]) in partitions:
                partitions[event.table, item.value.values[0]] = int(item.value.parameters["note"])


def test_joined_events_cost_one_call_and_the_position_passes_each(replica: FakedReplica) -> None:
    replica.projection.apply([created(1, "a", partition_columns=("dt",)), created(2, "b")])
    replica.target.calls.clear()
    position = replica.projection.apply(
        [partitions_added(3, "a", "3"), altered(4, "b"), partitions_added(5, "a", "5")]
    )
    assert position.event_id == 5
    assert replica.target.calls.count("add_partitions") == 1
    assert sorted(replica.target.partitions["a"]) == ["dt=3", "dt=5"]


@pytest.mark.parametrize("refusal", [InvalidRequest("no"), ServerFault("no")], ids=["refused", "failed"])
def test_events_that_the_target_refuses_together_are_applied_one_by_one(
    replica: FakedReplica, refusal: TidelineError
) -> None:
    replica.projection.apply([created(1, "a", partition_columns=("dt",))])
    replica.target.fails("add_partitions", refusal)
    replica.target.answers["add_partitions"] += [None, InvalidRequest("the third is wrong")]
    replica.projection.apply([partitions_added(at, "a", str(at)) for at in (2, 3, 4)])
    assert [failure.event_id for failure in replica.projection.failures()] == [3], (
        "the event that failed by itself"
    )


def test_nothing_is_joined_for_a_plain_table_because_its_files_belong_to_each_event(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1, "a", partition_columns=("dt",), parameters={})])
    replica.target.calls.clear()
    replica.projection.apply([partitions_added(at, "a", str(at)) for at in (2, 3)])
    assert replica.target.calls.count("add_partitions") == 2
