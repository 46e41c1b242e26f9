"""Tables of which only the metadata is replicated: what is left of their events, and what a rename or other
patterns change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.events import Event, Inserted, PartitionsAltered, TableAltered
from handlers.replication.loading.scope import PATTERNS_KEY, find_scope_change
from handlers.replication.policy.metadata_only import select_metadata
from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import STATISTICS, to_target_partition, to_target_table
from handlers.structs.objects import Partition, StorageDescriptor
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    committed,
    created,
    statistics,
    written,
)


POLICY = Policy("shop", "shop", "shop_r", exclude=("hidden",), metadata_only=("meta*",))
HEADER: dict[str, Any] = {"event_id": 1, "time_s": 0, "db": "shop"}


def about_rows(table: str) -> list[Event]:
    """Return an event of each kind that concerns only rows."""
    return [
        allocated(1, 1, 1, table),
        Inserted(
            **HEADER,
            kind="INSERT",
            table=table,
            owner=None,
            partition=None,
            spec=None,
            files=(),
            replace=True,
        ),
        statistics(1, table),
        altered(1, table, truncate=True),
        PartitionsAltered(
            **HEADER, kind="ALTER_PARTITIONS", table=table, owner=None, after=(), truncate=True
        ),
    ]


@given(st.sampled_from(["meta", "meta_a", "other", "hidden"]), st.integers(0, 4))
def test_events_about_rows_have_no_effect_on_tables_without_rows(table: str, number: int) -> None:
    event = about_rows(table)[number]
    assert select_metadata(event, POLICY) is (None if table.startswith("meta") else event)


def test_other_events_lose_only_their_write_id() -> None:
    event = altered(1, "meta", write_id=7)
    selected = select_metadata(event, POLICY)
    assert isinstance(selected, TableAltered)
    assert (selected, selected.write_id) == (replace(event, write_id=None), None)
    elsewhere = replace(about_rows("meta")[0], db="other")
    assert select_metadata(elsewhere, POLICY) is elsewhere


def test_objects_have_no_statistics_and_no_write_id() -> None:
    parameters = dict.fromkeys(STATISTICS, "1") | {"comment": "kept"}
    for name in ("meta", "other"):
        table = to_target_table(a_table(name, parameters=dict(parameters), writeId=4), POLICY, None)
        partition = to_target_partition(
            Partition(
                values=["1"],
                dbName="shop",
                tableName=name,
                sd=StorageDescriptor(),
                parameters=dict(parameters),
                writeId=4,
            ),
            POLICY,
            None,
        )
        for item in (table, partition):
            assert (item.parameters, item.writeId) == (
                ({"comment": "kept"}, None) if name == "meta" else (parameters, 4)
            )


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path, metadata_only=("meta*",))
    made.projection.open()
    yield made
    made.projection.close()


def test_a_transaction_of_tables_without_rows_never_reaches_the_target(replica: FakedReplica) -> None:
    file = replica.file()
    replica.projection.apply(
        [
            created(1, "meta"),
            allocated(2, 7, 1, "meta"),
            written(3, file, txn_id=7, table="meta", parts=2),
            committed(3, 7, part=1, parts=2),
        ]
    )
    assert "meta" in replica.target.tables
    assert not {"open_replayed", "allocate_replayed", "commit_replayed"} & set(replica.target.calls)
    assert replica.files_on_target() == []


@pytest.mark.parametrize(("old", "new"), [("meta", "orders"), ("orders", "meta")])
def test_a_table_that_is_renamed_across_the_patterns_is_loaded_again(
    replica: FakedReplica, old: str, new: str
) -> None:
    replica.projection.apply([created(1, old), altered(2, old, new_name=new)])
    assert [entry.table for entry in replica.context.tables.loads.waiting()] == [new]
    assert old not in replica.target.tables
    replica.restart()
    assert [entry.table for entry in replica.context.tables.loads.waiting()] == [new]


def test_a_rename_that_the_target_already_has_is_remembered_in_the_same_way(replica: FakedReplica) -> None:
    replica.projection.apply([created(1, "meta")])
    replica.restart(target_at=2)
    replica.projection.apply([altered(2, "meta", new_name="orders")])
    assert [entry.table for entry in replica.context.tables.loads.waiting()] == ["orders"]


def test_tables_whose_rows_other_patterns_replicate_are_loaded_again(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, metadata_only=("meta*",))
    for name in ("meta_a", "meta_b", "orders"):
        replica.target.tables[name] = a_table(name)
    for before, expected in (
        ({}, ("meta_a", "meta_b")),
        ({"metadata_only": ["meta_a", "orders"]}, ("meta_b", "orders")),
        ({"metadata_only": ["meta*"]}, ()),
    ):
        with replica.store.transaction() as txn:
            txn.put(PATTERNS_KEY, orjson.dumps({"include": ["*"], "exclude": [], **before}))
        assert find_scope_change(replica.context, replica.store).entered == expected
    replica.projection.close()
