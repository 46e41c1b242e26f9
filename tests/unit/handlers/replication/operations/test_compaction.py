"""Compactions are requested on the target and listed from there."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.replication.operations.compaction import CompactionState, list_compactions, request_compactions
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Table
from handlers.structs.transactions import CompactionResponse, CompactionType, ShowCompactResponseElement
from state.errors import InvalidRequest
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r")


def target(table: Table, *, accepted: bool = True) -> Any:
    answer = CompactionResponse(
        id=7, state="initiated" if accepted else "refused", accepted=accepted, errormessage=None
    )
    return RecordingMetastore(
        {"get_table": table, "partition_names": ["dt=1", "dt=2"], "compact": lambda *_: answer}
    )


def test_a_table_is_compacted_as_a_whole_or_in_all_its_partitions() -> None:
    (one,) = request_compactions(target(a_table()), POLICY, "orders")
    assert (one.table, one.partition, one.kind, one.state) == ("orders", None, "major", "initiated")
    partitioned = target(a_table(partition_columns=("dt",)))
    found = request_compactions(partitioned, POLICY, "orders", kind="minor")
    assert [each.partition for each in found] == ["dt=1", "dt=2"]
    sent = [call for call in partitioned.calls if call.name == "compact"]
    assert [call.arguments for call in sent] == [("shop_r", "orders")] * 2
    assert [call.options["kind"] for call in sent] == [CompactionType.MINOR] * 2


def test_only_named_partitions_are_compacted() -> None:
    found = request_compactions(target(a_table(partition_columns=("dt",))), POLICY, "orders", ["dt=2"])
    assert [each.partition for each in found] == ["dt=2"]


def test_a_refused_request_says_so() -> None:
    (one,) = request_compactions(target(a_table(), accepted=False), POLICY, "orders")
    assert (one.accepted, one.state) == (False, "refused")


@pytest.mark.parametrize(
    ("table", "partitions"),
    [
        (a_table(parameters={"transactional": "false"}), []),
        (a_table(), ["dt=1"]),
        (a_table(partition_columns=("dt",)), ["dt=3"]),
    ],
    ids=["plain", "no partitions", "unknown partition"],
)
def test_what_cannot_be_compacted_is_refused_before_anything_is_sent(
    table: Table, partitions: list[str]
) -> None:
    metastore = target(table)
    with pytest.raises(InvalidRequest):
        request_compactions(metastore, POLICY, "orders", partitions)
    assert "compact" not in metastore.names()


def test_the_newest_compactions_of_the_database_are_listed_first() -> None:
    def compaction(number: int, db: str, table: str) -> ShowCompactResponseElement:
        return ShowCompactResponseElement(
            dbname=db,
            tablename=table,
            type=CompactionType.MAJOR,
            state="working",
            start=5_000,
            endTime=0,
            id=number,
        )

    listed: Any = RecordingMetastore(
        {
            "show_compactions": [
                compaction(1, "shop_r", "orders"),
                compaction(2, "other", "orders"),
                compaction(3, "shop_r", "visits"),
            ]
        }
    )
    found = list_compactions(listed, POLICY)
    assert [each.table for each in found] == ["visits", "orders"]
    assert found[0] == CompactionState("visits", None, "major", "working", None, 5.0, None, None)
    assert [each.table for each in list_compactions(listed, POLICY, "orders")] == ["orders"]
