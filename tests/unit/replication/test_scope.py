"""Tables that enter or leave a policy because its patterns were changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from handlers.replication.loading.scope import PATTERNS_KEY, find_scope_change
from handlers.structs.objects import StorageDescriptor, Table
from state.errors import InvalidRequest, StateCorrupt
from tests.builders.replication.fake_target import FakedReplica, faked_replica


if TYPE_CHECKING:
    from pathlib import Path


def store_patterns(replica: FakedReplica, value: bytes) -> None:
    with replica.store.transaction() as txn:
        txn.put(PATTERNS_KEY, value)


def patterns(*include: str, exclude: tuple[str, ...] = ()) -> bytes:
    return orjson.dumps({"include": include, "exclude": exclude})


def replica_with(directory: Path, *tables: str, **policy: Any) -> FakedReplica:
    """Return a replica whose source and target have these tables."""
    replica = faked_replica(directory, **policy)
    replica.target.tables |= {
        name: Table(tableName=name, dbName="shop_r", sd=StorageDescriptor()) for name in tables
    }
    return replica


def test_tables_that_enter_are_loaded_and_tables_that_leave_are_forgotten(tmp_path: Path) -> None:
    replica = replica_with(tmp_path, "a", "b", "c", include=("a", "b"))
    store_patterns(replica, patterns("b", "c"))
    replica.context.quarantine.add("c", 1, InvalidRequest("no"))
    replica.projection._record()
    replica.projection.open()
    assert [(entry.table, entry.reason) for entry in replica.context.loads.waiting()] == [("a", "in-scope")]
    assert replica.stored_quarantine() == {}
    assert "c" in replica.target.tables, "the target keeps it"


def test_a_change_is_followed_once_and_survives_a_restart(tmp_path: Path) -> None:
    replica = replica_with(tmp_path, "a")
    store_patterns(replica, patterns("*", exclude=("a",)))
    replica.projection.open()
    (entry,) = replica.context.loads.waiting()
    for _ in range(2):
        replica.projection.open()
        assert replica.context.loads.waiting() == (entry,)
    assert find_scope_change(replica.context, replica.store).entered == ()


def test_a_state_without_patterns_starts_with_the_present_ones(tmp_path: Path) -> None:
    replica = replica_with(tmp_path, "a")
    with replica.store.transaction() as txn:
        txn.delete(PATTERNS_KEY)
    replica.projection.open()
    assert replica.context.loads.waiting() == ()
    assert replica.store.get(PATTERNS_KEY) == patterns("*")


def test_patterns_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    replica = replica_with(tmp_path)
    store_patterns(replica, b"{")
    with pytest.raises(StateCorrupt, match="patterns"):
        replica.projection.open()
