"""Which changes of the metadata give a transactional table rows that no write event names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handlers.events import PartitionsAdded
from handlers.replication.effects.files.truncation import truncate_table
from handlers.replication.effects.files_in_place import needs_load
from handlers.replication.policy.policy import Policy
from handlers.replication.tables.policy_tables import PolicyTables
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import (
    a_partition,
    a_table,
    allocated,
    altered,
    committed,
    created,
    embedded,
    partition_altered,
    partitions_added,
)


@pytest.fixture
def parts(replica: FakedReplica) -> FakedReplica:
    """A followed table with partitions: write ids 1 and 2 have ended, and 3 is open."""
    ids = [(3, 1), (5, 2), (7, 3)]
    events: list[Any] = [created(2, partition_columns=("dt",))]
    for event_id, write_id in ids:
        events.append(allocated(event_id, write_id, write_id))
        if write_id < 3:
            events.append(committed(event_id + 1, write_id))
    replica.projection.apply(events)
    return replica


def added(replica: FakedReplica, *paths: str, files: str | None = "0", write_id: int = 0) -> PartitionsAdded:
    """Return the addition of a partition whose directory has these files."""
    root = replica.directory / "source" / "dt=1"
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("row")
    partition = a_partition()
    partition.sd.location, partition.writeId = f"file:{root}", write_id
    partition.parameters = {} if files is None else {"numFiles": files}
    return replace(partitions_added(9), partitions=(embedded(partition),))


@pytest.mark.parametrize(
    ("path", "brought"),
    [
        ("delta_0000001_0000001_0000/bucket_00000", True),
        ("delete_delta_0000002_0000002_0000/bucket_00000", True),
        ("base_0000002/bucket_00000", True),
        ("000000_0", True),
        ("HIVE_UNION_SUBDIR_1/000000_0", True),
        ("delta_0000002_0000009_v0000042/bucket_00000", True),
        ("base_0000009_v0000042/bucket_00000", True),
        ("delta_0000003_0000003_0000/bucket_00000", False),
        ("delta_0000004_0000004_0000/bucket_00000", False),
        ("base_0000004/bucket_00000", False),
        ("base_0000002/_empty", False),
        (".hive-staging/delta_0000001_0000001_0000/bucket_00000", False),
    ],
)
@pytest.mark.parametrize(
    ("files", "write_id"), [("0", 3), (None, 0), ("1", 0)], ids=["DDL", "client", "MSCK"]
)
def test_an_added_partition_is_loaded_if_it_has_rows_of_ended_writes(
    parts: FakedReplica, path: str, files: str | None, write_id: int, *, brought: bool
) -> None:
    event = added(parts, path, files=files, write_id=write_id)
    assert needs_load(event, parts.context) is brought


def test_the_files_of_an_insert_come_with_its_write_event_and_are_not_listed(parts: FakedReplica) -> None:
    event = added(parts, "delta_0000001_0000001_0000/bucket_00000", files="1", write_id=3)
    assert not needs_load(event, parts.context)


@pytest.mark.parametrize(("files", "brought"), [("1", True), ("0", False), (None, False)])
def test_the_count_of_the_metastore_decides_if_the_directory_is_gone(
    parts: FakedReplica, files: str | None, *, brought: bool
) -> None:
    (parts.directory / "source" / "other").mkdir(parents=True)
    assert needs_load(added(parts, files=files), parts.context) is brought


def test_a_table_without_write_ids_is_loaded_because_hive_does_not_log_that_it_seeds_them(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(2, partition_columns=("dt",))])
    path = "delta_0000005_0000005_0000/bucket_00000"
    assert needs_load(added(replica, path, files="1"), replica.context)
    assert not needs_load(added(replica, path, files=None), replica.context), "a later write"


def test_a_partition_of_a_table_without_rows_is_only_added(parts: FakedReplica) -> None:
    policy = Policy("shop", "shop", "shop_r", metadata_only=("orders",))
    event = added(parts, "000000_0")
    assert not needs_load(event, replace(parts.context, policy=policy))


def test_the_load_is_requested_when_the_event_is_replayed(parts: FakedReplica) -> None:
    event = added(parts, "delta_0000001_0000001_0000/bucket_00000", write_id=3)
    parts.projection.apply([event])
    assert [load.table for load in parts.context.tables.loads.waiting()] == ["orders"]
    assert parts.stored_quarantine() == {}


def test_a_partition_that_is_moved_is_loaded_and_one_that_is_only_altered_is_not(parts: FakedReplica) -> None:
    moved = a_partition()
    moved.sd.location = "file:/source/shop.db/other/dt=9"
    owner = embedded(a_table(partition_columns=("dt",)))
    alone = replace(partition_altered(9, "1"), after=(embedded(moved),))
    several = replace(partition_altered(9, "1"), kind="ALTER_PARTITIONS", before=None, owner=owner)
    assert needs_load(alone, parts.context)
    assert needs_load(replace(several, after=(embedded(moved),)), parts.context)
    assert not needs_load(partition_altered(9, "1"), parts.context)
    assert not needs_load(several, parts.context)
    moved.writeId = 3
    insert = replace(several, after=(embedded(moved),))
    assert not needs_load(insert, parts.context), "an insert into one that was moved before"


def test_a_table_that_is_moved_or_becomes_transactional_is_loaded(replica: FakedReplica) -> None:
    replica.projection.apply([created(2)])
    moved = replace(altered(3), after=embedded(a_table(location="file:/source/shop.db/b")))
    converted = replace(altered(3), before=embedded(a_table(parameters={}, kind="EXTERNAL_TABLE")))
    assert needs_load(moved, replica.context)
    assert needs_load(converted, replica.context)
    assert not needs_load(altered(3), replica.context)


def test_a_truncation_without_a_write_id_is_repeated_with_the_highest_one_before_it(
    parts: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(
        parts.target, "truncate_table", lambda *_, **options: calls.append(options), raising=False
    )
    event = partition_altered(9, "1", truncate=True)
    assert not needs_load(event, parts.context)
    parts.projection.apply([event])
    assert calls == [
        {
            "partition_names": ["dt=1"],
            "write_id": 3,
            "valid_write_ids": "shop_r.orders:3:9223372036854775807::",
            "environment": None,
        }
    ], "without the option that keeps the files"


def test_a_truncation_without_a_write_id_loads_a_table_that_may_have_later_rows(parts: FakedReplica) -> None:
    """The state was lost, and the event is repeated."""
    forgotten = replace(parts.context, tables=PolicyTables("shop", parts.context.table_cache))
    assert needs_load(altered(9, truncate=True), forgotten)
    assert needs_load(partition_altered(9, "1", truncate=True), forgotten)
    assert not needs_load(altered(9, truncate=True, write_id=3), forgotten)
    assert not needs_load(partition_altered(9, "1", truncate=True, write_id=3), forgotten)
    plain = embedded(a_table(parameters={}))
    assert not needs_load(replace(altered(9, truncate=True), before=plain, after=plain), forgotten)


def test_later_write_ids_that_no_reader_sees_do_not_matter(
    parts: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were allocated ahead."""
    later = ValidWriteIds("shop_r.orders", 5, open=(3, 4, 5))
    monkeypatch.setattr(parts.target, "valid_write_ids", lambda _: [later])
    assert not needs_load(altered(9, truncate=True), parts.context)
    visible = ValidWriteIds("shop_r.orders", 5, open=(3, 5))
    monkeypatch.setattr(parts.target, "valid_write_ids", lambda _: [visible])
    assert needs_load(altered(9, truncate=True), parts.context)


def test_a_truncation_without_a_write_id_is_not_sent_to_a_table_whose_rows_are_not_replicated(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(2)])
    policy = Policy("shop", "shop", "shop_r", metadata_only=("orders",))
    truncate_table("orders", None, replace(replica.context, policy=policy))
    assert "truncate_table" not in replica.target.calls


@pytest.mark.parametrize(
    ("path", "brought"),
    [
        ("000000_0", True),
        ("HIVE_UNION_SUBDIR_1/000000_0", True),
        ("delta_0000001_0000001/bucket_0", False),
        ("dt=x/delta_0000001_0000001/bucket_0", False),  # of a renamed table whose directory this one got
    ],
)
def test_a_table_that_is_created_over_files_of_no_transaction_is_loaded(
    replica: FakedReplica, path: str, *, brought: bool
) -> None:
    file = replica.directory / "source" / "t" / path
    file.parent.mkdir(parents=True)
    file.write_text("row")
    location = f"file:{replica.directory}/source/t"
    event = created(2, location=location, parameters={"transactional": "true", "numFiles": "1"})
    assert needs_load(event, replica.context) is brought
