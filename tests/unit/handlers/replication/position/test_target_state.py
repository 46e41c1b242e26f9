"""What replay keeps about the target: its position, cached tables and locations, and the quarantine."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.replication.policy.policy import Policy
from handlers.replication.tables.quarantine import Quarantine, QuarantinedTable
from handlers.replication.target import table_cache
from handlers.replication.target.table_cache import TableCache
from handlers.replication.target.target_position import TargetPosition
from handlers.structs.objects import Database, Partition, StorageDescriptor, Table
from state.errors import MalformedEvent, NotFound, StateCorrupt, TargetDiverged
from state.store.memory import MemoryStore
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r")
ERROR = MalformedEvent("broken")


def a_target(parameters: dict[str, str] | None = None, **answers: Any) -> RecordingMetastore:
    present = Database(name="shop_r", parameters=parameters or {})

    def alter(_: str, database: Database) -> None:
        present.parameters = database.parameters

    return RecordingMetastore({"get_database": lambda _: present.copy(), "alter_database": alter, **answers})


def position_on(target: RecordingMetastore) -> TargetPosition:
    metastore: Any = target
    return TargetPosition(metastore, POLICY)


def cache_on(target: RecordingMetastore) -> TableCache:
    metastore: Any = target
    return TableCache(metastore, POLICY)


def test_the_target_position_is_read_from_the_database() -> None:
    assert position_on(a_target({"repl.last.id": "12"})).read() == 12
    assert position_on(a_target({"repl.last.id": "x"})).read() is None
    assert position_on(a_target()).read() is None
    assert position_on(a_target(get_database=NotFound("there is none"))).read() is None


def test_a_database_that_hive_marked_as_incompatible_is_refused() -> None:
    with pytest.raises(TargetDiverged):
        position_on(a_target({"repl.last.id": "12", "repl.incompatible": "TRUE"})).read()
    assert position_on(a_target({"repl.last.id": "12", "repl.incompatible": "false"})).read() == 12


def test_the_target_position_is_written_only_if_it_advances() -> None:
    target = a_target({"x": "y"})
    position = position_on(target)
    for event_id in (5, 5, 4, 6):
        position.advance(event_id, {})
    written = [call.arguments[1].parameters for call in target.calls if call.name == "alter_database"]
    assert written == [{"x": "y", "repl.last.id": "5"}, {"x": "y", "repl.last.id": "6"}]


def test_a_position_that_was_read_is_not_written_again() -> None:
    target = a_target({"repl.last.id": "12"})
    position = position_on(target)
    position.read()
    position.advance(12, {})
    assert "alter_database" not in target.names()
    position.forget()
    assert position.written is None


def test_without_a_database_no_position_counts_as_written() -> None:
    target = a_target(get_database=NotFound("there is none"))
    position = position_on(target)
    position.advance(5, {})
    assert position.written is None


def located(location: str | None) -> Partition:
    return Partition(values=["1"], dbName="shop_r", tableName="t", sd=StorageDescriptor(location=location))


def tables(_db: str, name: str) -> Table:
    return a_table(name, location=f"file:/target/{name}")


def test_a_table_is_fetched_once_until_it_changes() -> None:
    target = RecordingMetastore({"get_table": tables})
    cache = cache_on(target)
    assert cache.location("t") == cache.location("t") == "file:/target/t"
    assert len(target.calls) == 1
    cache.forget("t")
    cache.table("t")
    assert len(target.calls) == 2


def test_forgetting_a_table_forgets_its_partitions() -> None:
    target = RecordingMetastore({"get_partition_by_name": lambda *_: located("file:/p")})
    cache = cache_on(target)
    forget = [lambda: cache.forget("t"), lambda: cache.forget_partition("t", "d=1"), cache.clear]
    for number, step in enumerate(forget, 1):
        assert cache.location("t", "d=1") == cache.location("t", "d=1") == "file:/p"
        assert len(target.calls) == number
        step()


def test_the_oldest_table_leaves_a_full_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "_TABLES_MAX", 2)
    target = RecordingMetastore({"get_table": tables})
    cache = cache_on(target)
    for name in ("a", "b", "c", "c", "b"):
        cache.table(name)
    assert len(target.calls) == 3
    cache.table("a")
    assert len(target.calls) == 4


def test_a_table_with_too_many_partitions_starts_a_new_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_cache, "_PARTITIONS_MAX", 2)
    target = RecordingMetastore({"get_partition_by_name": lambda *_: located("file:/p")})
    cache = cache_on(target)
    for name in ("d=1", "d=2", "d=3", "d=3", "d=1"):
        cache.location("t", name)
    assert len(target.calls) == 4


def test_an_object_without_a_location_is_a_divergence() -> None:
    cache = cache_on(RecordingMetastore({"get_partition_by_name": lambda *_: located(None)}))
    with pytest.raises(TargetDiverged):
        cache.location("t", "d=1")


def stored(quarantine: Quarantine, store: MemoryStore) -> Quarantine:
    """Flush ``quarantine`` and return what a restart loads."""
    with store.transaction() as txn:
        quarantine.flush(txn)
    loaded = Quarantine()
    loaded.load(store)
    return loaded


def test_a_quarantine_survives_a_restart_with_its_first_reason() -> None:
    quarantine, store = Quarantine(clock=lambda: 99.5), MemoryStore()
    quarantine.add("t", 5, ERROR)
    quarantine.add("t", 6, NotFound("later"))
    assert quarantine.unsaved
    assert stored(quarantine, store).entries() == (
        QuarantinedTable("t", 5, "malformed-event", str(ERROR), 99),
    )
    assert not quarantine.unsaved


def test_a_rename_moves_a_quarantine_and_leaves_none_under_the_old_name() -> None:
    quarantine, store = Quarantine(), MemoryStore()
    quarantine.add("t", 5, ERROR)
    stored(quarantine, store)
    quarantine.rename("t", "u")
    quarantine.rename("other", "v")
    assert [entry.table for entry in stored(quarantine, store).entries()] == ["u"]


def test_a_released_table_is_not_stored_any_more() -> None:
    quarantine, store = Quarantine(), MemoryStore()
    for table in ("a", "b", "c"):
        quarantine.add(table, 5, ERROR)
    stored(quarantine, store)
    quarantine.remove("a")
    assert [entry.table for entry in stored(quarantine, store).entries()] == ["b", "c"]
    quarantine.remove_all()
    assert stored(quarantine, store).entries() == ()


@pytest.mark.parametrize("value", [b"{", b'{"table":"t"}', b"[]"])
def test_an_entry_that_cannot_be_read_is_corrupt_state(value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(b"quarantine/t", value)
    with pytest.raises(StateCorrupt):
        Quarantine().load(store)
