"""Tables that enter or leave a policy because its patterns were changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from handlers.replication.loading.scope import PATTERNS_KEY, find_scope_change
from handlers.replication.operations import pruning
from handlers.structs.objects import StorageDescriptor, Table
from state.errors import InvalidRequest, Refused, StateCorrupt
from state.store.memory import MemoryStore
from tests.builders.replication.fake_target import FakedReplica, Killed, faked_replica


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
    replica.context.tables.quarantine.add("c", 1, InvalidRequest("no"))
    replica.projection._recorded.record()
    replica.projection.open()
    assert [(entry.table, entry.reason) for entry in replica.context.tables.loads.waiting()] == [
        ("a", "in-scope")
    ]
    assert replica.stored_quarantine() == {}
    assert "c" in replica.target.tables, "the target keeps it"
    assert [entry.table for entry in replica.context.tables.left.entries()] == ["c"]


def left(directory: Path) -> FakedReplica:
    """Return a replica that the tables ``b`` and ``c`` have left."""
    replica = replica_with(directory, "a", "b", "c", "foreign", include=("a",))
    store_patterns(replica, patterns("a", "b", "c"))
    replica.projection.open()
    return replica


def test_a_table_that_left_is_dropped_on_request_only(tmp_path: Path) -> None:
    replica = left(tmp_path)
    assert [drop.table for drop in replica.projection.plan_prune(())] == ["b", "c"]
    assert sorted(replica.target.tables) == ["a", "b", "c", "foreign"]
    assert replica.projection.prune(["b"]) == ("b",)
    assert sorted(replica.target.tables) == ["a", "c", "foreign"]
    replica.projection.open()
    assert [entry.table for entry in replica.context.tables.left.entries()] == ["c"], "it is recorded"


@pytest.mark.parametrize(("table", "message"), [("a", "replicates this table"), ("foreign", "has not left")])
def test_nothing_is_dropped_if_one_of_the_tables_did_not_leave(
    tmp_path: Path, table: str, message: str
) -> None:
    replica = left(tmp_path)
    with pytest.raises(Refused, match=message):
        replica.projection.prune(["b", table])
    assert sorted(replica.target.tables) == ["a", "b", "c", "foreign"]


def test_the_data_of_an_external_table_is_kept(tmp_path: Path) -> None:
    replica = left(tmp_path)
    replica.target.tables["b"].parameters = {"EXTERNAL": "TRUE"}
    replica.target.tables["b"].tableType = "EXTERNAL_TABLE"
    (drop,) = replica.projection.plan_prune(["b"])
    assert (drop.kind, drop.deletes_data) == ("external table", False)


def test_tables_that_left_are_forgotten_once_they_are_gone_or_enter_again(tmp_path: Path) -> None:
    replica = left(tmp_path)
    del replica.target.tables["b"]
    store_patterns(replica, patterns("b"))
    assert replica.projection.plan_prune(["b"]) == ()
    replica.projection.open()
    assert [entry.table for entry in replica.context.tables.left.entries()] == ["c"]
    store_patterns(replica, patterns("b"))
    replica.context.tables.left.add("a")
    replica.projection._recorded.record()
    replica.projection.open()
    assert "a" not in replica.context.tables.left, "it entered again"


def test_tables_that_left_are_known_without_the_state_file(tmp_path: Path) -> None:
    replica = left(tmp_path)
    replica.projection.settle()
    replica.restart(store=MemoryStore())
    assert [entry.table for entry in replica.context.tables.left.entries()] == ["b", "c"]


def test_a_prune_that_was_killed_after_a_drop_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = left(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(pruning, "failpoint", _die)
        with pytest.raises(Killed):
            replica.projection.prune(["b", "c"])
    replica.restart()
    assert replica.projection.prune(["c"]) == ("c",)
    assert len(replica.context.tables.left) == 0


def _die(_name: str) -> None:
    raise Killed


def test_a_change_is_followed_once_and_survives_a_restart(tmp_path: Path) -> None:
    replica = replica_with(tmp_path, "a")
    store_patterns(replica, patterns("*", exclude=("a",)))
    replica.projection.open()
    (entry,) = replica.context.tables.loads.waiting()
    for _ in range(2):
        replica.projection.open()
        assert replica.context.tables.loads.waiting() == (entry,)
    assert find_scope_change(replica.context, replica.store).entered == ()


def test_a_state_without_patterns_starts_with_the_present_ones(tmp_path: Path) -> None:
    replica = replica_with(tmp_path, "a")
    with replica.store.transaction() as txn:
        txn.delete(PATTERNS_KEY)
    replica.projection.open()
    assert replica.context.tables.loads.waiting() == ()
    assert replica.store.get(PATTERNS_KEY) == patterns("*")


def test_patterns_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    replica = replica_with(tmp_path)
    store_patterns(replica, b"{")
    with pytest.raises(StateCorrupt, match="patterns"):
        replica.projection.open()
