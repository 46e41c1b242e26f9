"""The status of compactions on the target: what is counted, what counts as failed, and what is shown if the
target does not answer."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.replica.compaction_watch import CompactionWatch
from daemon.replica.status.compactions import COMPACTIONS, LISTED_MAX, QUEUED_S_MAX, CompactionStatus
from handlers.metastore.client import Metastore
from handlers.replication.operations import compaction as compaction_calls
from handlers.replication.operations.compaction import STATES, read_backlogs
from handlers.structs.transactions import CompactionType, ShowCompactResponseElement
from state.errors import MetastoreUnavailable
from tests.builders.replication.recording_metastore import RecordingMetastore


def compaction(number: int, state: str, table: str = "orders", **fields: Any) -> ShowCompactResponseElement:
    values = {"dbname": "shop_r", "type": CompactionType.MAJOR, "id": number, **fields}
    return ShowCompactResponseElement(tablename=table, state=state, **values)


def target(*compactions: ShowCompactResponseElement) -> Metastore:
    """Return a metastore that filters as Hive does."""

    def show(
        db: str | None = None, table: str | None = None, *, state: str | None = None, limit: int = 99
    ) -> list[Any]:
        found = [
            each
            for each in compactions
            if db in {None, each.dbname}
            and table in {None, each.tablename}
            and (state is None or STATES.get(each.state) == state)
        ]
        return found[:limit]

    return cast("Metastore", SimpleNamespace(show_compactions=show))


def test_compactions_that_wait_run_or_failed_are_counted_and_failed_ones_are_listed_first() -> None:
    found = read_backlogs(
        target(
            compaction(1, "initiated", enqueueTime=9_000),
            compaction(2, "initiated", "visits", enqueueTime=7_000),
            compaction(3, "working"),
            compaction(4, "ready for cleaning", "visits"),
            compaction(5, "failed", "lines", errorMessage="no heap"),
            compaction(6, "succeeded", "visits"),
            compaction(7, "failed", "orders", dbname="other"),
        ),
        ["shop_r"],
        listed_max=2,
    )["shop_r"]
    assert dict(found.counts) == {
        "failed": 1,
        "did not initiate": 0,
        "working": 1,
        "initiated": 2,
        "ready for cleaning": 1,
    }
    assert found.oldest_queued_s == 7.0
    assert [(each.table, each.message) for each in found.listed] == [("lines", "no heap"), ("orders", None)]


ENDED = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, "dt=1", "dt=2"]),
        st.sampled_from(
            ["failed", "did not initiate", "initiated", "succeeded", "ready for cleaning", "refused"]
        ),
    ),
    max_size=12,
)


@given(ENDED)
def test_a_failure_counts_until_a_later_compaction_of_the_same_object_is_queued(
    ended: list[tuple[str, str | None, str]],
) -> None:
    found = read_backlogs(
        target(
            *(
                compaction(number, state, table, partitionname=partition)
                for number, (table, partition, state) in enumerate(ended, 1)
            )
        ),
        ["shop_r"],
        listed_max=99,
    )["shop_r"]
    expected: dict[str, set[tuple[str, str | None]]] = {"failed": set(), "did not initiate": set()}
    for table, partition, state in ended:
        if state in expected:
            expected[state].add((table, partition))
        elif state != "refused":
            for failed in expected.values():
                failed.discard((table, partition))
    for state, objects in expected.items():
        assert {(each.table, each.partition) for each in found.listed if each.state == state} == objects
        assert found.counts[state] == len(objects)


def watch(*policies: str) -> CompactionWatch:
    config = SimpleNamespace(policy=lambda name: SimpleNamespace(replica_database=f"{name}_r"))
    return CompactionWatch(cast("Any", SimpleNamespace(config=config)), "dr", lambda: policies)


def text(*rows: CompactionStatus) -> str:
    return COMPACTIONS.text(rows, rows[0].read_s or 0.0)


def test_nothing_is_shown_before_the_first_answer_and_without_compactions() -> None:
    read = watch("shop")
    assert read.status() == (CompactionStatus("shop"),)
    assert text(*read.status()) == ""
    read.read_all(target())
    assert text(*read.status()) == ""
    assert COMPACTIONS.problems(read.status()) == []


def test_a_compaction_that_was_listed_is_kept_for_a_day_after_it_has_succeeded() -> None:
    read, now = watch("shop"), round(time.time() * 1000)
    begun = compaction(2, "working", start=now)
    before = compaction(1, "succeeded", "visits", endTime=now)
    read.read_all(target(before, begun, compaction(3, "initiated", "lines", enqueueTime=now)))
    assert read.status()[0].succeeded == ()
    ended = replace_state(begun, "succeeded", endTime=now)
    for _ in range(2):
        read.read_all(target(before, ended, compaction(3, "failed", "lines")))
        (kept,) = read.status()[0].succeeded
        assert (kept.table, kept.state, kept.since_s) == ("shop_r.orders", "succeeded", now / 1000)
    assert "orders" not in text(*read.status())
    read.read_all(target(ended, compaction(4, "initiated", enqueueTime=now)))
    assert read.status()[0].succeeded == (), "the next one of the same table is listed"
    old = replace_state(begun, "succeeded", endTime=now - 90_000_000)
    read.read_all(target(old))
    read.read_all(target(old))
    assert read.status()[0].succeeded == ()


def replace_state(each: ShowCompactResponseElement, state: str, **fields: Any) -> ShowCompactResponseElement:
    return compaction(each.id or 0, state, each.tablename, **fields)


def test_failed_and_queued_compactions_are_shown_with_their_message() -> None:
    read = watch("shop", "other")
    read.read_all(
        target(
            compaction(1, "failed", errorMessage="no <heap>", partitionname="dt=1", endTime=5_000),
            compaction(2, "initiated", "visits", enqueueTime=round(time.time() * 1000)),
        )
    )
    shown = text(*read.status())
    assert "no <heap>" in shown
    assert "shop_r.visits" in shown
    assert "other" not in shown
    (action,) = COMPACTIONS.actions(read.status())
    assert (action.kind, action.since_s) == ("failed-compaction", 5.0)
    assert action.reason == "1 compaction failed on the target, the last one of shop_r.orders/dt=1: no <heap>"


def test_a_target_that_does_not_answer_is_shown_with_what_it_answered_last() -> None:
    read = watch("shop")
    read.read_all(target(compaction(1, "failed")))
    (before,) = read.status()
    failing = RecordingMetastore({"show_compactions": MetastoreUnavailable("nobody answers")})
    read.read_all(cast("Any", failing))
    (after,) = read.status()
    assert (after.counts, after.read_s, after.failed) == (before.counts, before.read_s, 1)
    assert COMPACTIONS.problems(read.status()) == [
        "shop: compactions of the target cannot be read: metastore-unavailable: nobody answers"
    ]
    assert "cannot be read" in text(after)
    read.read_all(target())
    assert read.status()[0].problem is None


@pytest.mark.parametrize("answered", [True, False])
def test_metrics_have_no_sample_before_the_first_answer(*, answered: bool) -> None:
    read = watch("shop")
    if answered:
        read.read_all(target(*(compaction(each, "failed", f"t{each}") for each in range(1, 31))))
        assert len(read.status()[0].listed) == LISTED_MAX
    found = {
        (sample.name, sample.labels.get("state")): sample.value
        for family in COMPACTIONS.families(read.status())
        for sample in family.samples
    }
    assert bool(found) is answered
    if answered:
        assert found["tideline_target_compactions", "failed"] == 30
        assert found["tideline_target_compactions", "initiated"] == 0
        assert ("tideline_target_compactions_oldest_queued_seconds", None) not in found


def test_the_compactions_of_many_policies_are_read_with_one_call_for_each_state() -> None:
    policies = [f"db{number}" for number in range(100)]
    read = watch(*policies)
    answering = target(*(compaction(n, "working", dbname=f"{name}_r") for n, name in enumerate(policies)))
    calls: list[str | None] = []

    def show(db: str | None = None, **filters: Any) -> list[ShowCompactResponseElement]:
        calls.append(filters["state"])
        return answering.show_compactions(db, **filters)

    read.read_all(cast("Any", SimpleNamespace(show_compactions=show)))
    assert sorted(map(str, calls)) == sorted(STATES.values())
    assert all((each.counts or {})["working"] == 1 for each in read.status())


def test_each_database_is_read_alone_if_those_of_others_fill_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction_calls, "READ_MAX", 5)
    crowd = (compaction(number, "initiated", f"t{number}", dbname="other") for number in range(9))
    found = read_backlogs(target(*crowd, compaction(10, "initiated")), ["shop_r"], listed_max=9)
    assert found["shop_r"].counts["initiated"] == 1


def test_a_compaction_needs_an_operator_once_no_worker_has_taken_it_for_hours() -> None:
    long = CompactionStatus("shop", read_s=30_000.0, counts={"initiated": 2}, waiting_s=QUEUED_S_MAX + 1)
    assert not list(COMPACTIONS.actions((replace(long, waiting_s=QUEUED_S_MAX),)))
    (action,) = COMPACTIONS.actions((long,))
    assert (action.kind, action.object, action.since_s) == (
        "waiting-compaction",
        "replication:shop",
        30_000.0 - QUEUED_S_MAX - 1,
    )
    assert "2 compactions in the queue" in action.reason
