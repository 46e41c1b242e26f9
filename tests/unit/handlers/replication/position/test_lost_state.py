"""A policy whose state file is lost or out of date: no table that was incomplete is taken for complete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.events import Event, FilesWritten, Undecodable
from handlers.replication.tables import kept_entries
from handlers.replication.tables.kept_entries import (
    KEPT,
    PAUSED,
    PIECE_CHARACTERS,
    format_entries,
    parse_entries,
)
from handlers.replication.tables.quarantine import QuarantinedTable
from handlers.replication.tables.table_entries import LeftTable
from handlers.replication.tables.table_loads import TableLoad
from handlers.structs.objects import Partition, StorageDescriptor
from state.errors import MalformedEvent, MetastoreUnavailable
from state.store import Store
from state.store.memory import MemoryStore
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import allocated, committed, created, written


def broken(event_id: int, table: str = "orders") -> Event:
    return Undecodable(
        event_id=event_id,
        time_s=0,
        kind="ALTER_TABLE",
        db="shop",
        table=table,
        error=MalformedEvent("no JSON"),
    )


def lose_state(replica: FakedReplica) -> None:
    replica.restart(store=MemoryStore())


def copy_of(store: Store) -> MemoryStore:
    copied = MemoryStore()
    with copied.transaction() as txn:
        for key, value in store.scan(b"", None):
            txn.put(key, value)
    return copied


def refuse(_: str) -> None:
    raise MetastoreUnavailable("it is down for maintenance")


def waiting(replica: FakedReplica) -> list[str]:
    return [load.table for load in replica.context.tables.loads.waiting()]


def test_a_quarantine_survives_the_loss_of_the_state_file(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), created(2, "other"), broken(3)])
    replica.projection.settle()
    lose_state(replica)
    assert replica.stored_quarantine() == {"orders": "malformed-event"}
    (failure,) = replica.projection.failures()
    assert (failure.event_id, failure.reason) == (3, kept_entries.REASON)
    lose_state(replica)
    assert replica.stored_quarantine() == {"orders": "malformed-event"}, "and once more"


def test_the_position_never_passes_a_quarantine_that_the_target_does_not_have(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), created(2, "other"), allocated(3, 1, 1, "other")])
    replica.projection.apply([broken(4), committed(5)])
    assert replica.parameters["repl.last.id"] == "4"
    lose_state(replica)
    assert replica.stored_quarantine() == {"orders": "malformed-event"}


def test_a_table_quarantined_by_a_commit_is_on_the_target_before_the_commit(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    file = replica.file()
    file = type(file)(file.uri + "-lost", None, None, file.subdir)
    monkeypatch.setattr(replica.target, "commit_replayed", lambda *_: seen.append(replica.parameters[KEPT]))
    with pytest.raises(Exception, match="did not commit"):
        replica.projection.apply([written(3, file, part=0, parts=2), committed(3, part=1, parts=2)])
    assert seen == ["orders:3:file-lost:orders;1;0;1-1"]


def test_a_released_table_is_not_quarantined_again(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), broken(2)])
    replica.projection.settle()
    replica.context.tables.quarantine.remove("orders")
    replica.projection.settle()
    lose_state(replica)
    assert replica.stored_quarantine() == {}


def test_a_table_that_waits_for_its_load_still_waits(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.loads.request(["orders"], "release")
    replica.projection.settle()
    lose_state(replica)
    assert [(load.table, load.reason) for load in replica.context.tables.loads.waiting()] == [
        ("orders", "release")
    ]


@pytest.mark.parametrize("outdated", [True, False])
def test_a_daemon_that_takes_a_paused_policy_over_does_not_resume_it(
    replica: FakedReplica, outdated: bool
) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    other = copy_of(replica.store) if outdated else MemoryStore()
    replica.projection.apply([created(2, "other")])
    since_s = replica.projection.begin_pause()
    replica.restart(store=other)
    assert replica.projection.pause.since_s() == since_s
    replica.projection.pause.end()
    replica.projection.settle()
    lose_state(replica)
    assert replica.projection.pause.since_s() is None


def test_a_pause_at_an_unreachable_target_is_kept_in_the_state(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica.projection.apply([created(1)])
    with monkeypatch.context() as unreachable:
        unreachable.setattr(replica.target, "get_database", refuse)
        since_s = replica.projection.begin_pause()
    assert PAUSED not in replica.parameters
    replica.restart()
    assert replica.projection.pause.since_s() == since_s
    assert replica.parameters[PAUSED] == str(since_s)


def test_without_a_list_on_the_target_every_table_is_loaded_again(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), created(2, "other")])
    replica.projection.settle()
    del replica.parameters[KEPT]
    lose_state(replica)
    assert waiting(replica) == ["orders", "other"]


def test_an_out_of_date_state_file_takes_the_quarantine_of_the_target(replica: FakedReplica) -> None:
    """Another instance has followed the policy since, and quarantined or released tables."""
    old = replica.store
    replica.projection.apply([created(1), created(2, "other")])
    replica.context.tables.quarantine.add("gone", 1, MalformedEvent("released since"))
    replica.projection.settle()
    replica.restart(store=copy_of(old))
    replica.context.tables.quarantine.remove("gone")
    replica.projection.apply([broken(3, "other")])
    replica.projection.settle()
    replica.restart(store=old)
    assert replica.stored_quarantine() == {"other": "malformed-event"}


def test_a_backup_of_the_state_with_the_present_epoch_takes_the_quarantine_of_the_target(
    replica: FakedReplica,
) -> None:
    """The event that was at fault is not applied again, because the target's position is beyond it."""
    replica.projection.apply([created(1)])
    replica.projection.settle()
    backup = copy_of(replica.store)
    replica.projection.apply([broken(2)])
    replica.projection.settle()
    replica.restart(store=backup)
    assert replica.stored_quarantine() == {"orders": "malformed-event"}


@pytest.mark.parametrize(("partition_name", "listed"), [("", False), ("dt=a", False), ("dt=a", True)])
def test_a_partitioned_table_that_an_unknown_transaction_wrote_is_loaded_unless_the_relay_listed_it(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, partition_name: str, *, listed: bool
) -> None:
    """Hive leaves partitions out of its write events, and those that the transaction touched were in the lost
    state."""
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.settle()
    lose_state(replica)
    location = f"file:{replica.target.warehouse}/orders"
    found: Any = Partition(
        values=["a"], dbName="shop_r", tableName="orders", sd=StorageDescriptor(location=location)
    )
    monkeypatch.setattr(type(replica.target), "get_partition_by_name", lambda *_: found, raising=False)
    event = written(3, replica.file(), part=0, parts=2)
    event = FilesWritten(
        **{name: getattr(event, name) for name in event.__dataclass_fields__}
        | {"partition_name": partition_name}
    )
    replica.projection.apply([event, replace(committed(3, part=1, parts=2), listed=listed)])
    assert [txn for txn, _ in replica.target.commits] == [1], "other tables need the commit"
    assert waiting(replica) == (["orders"] if partition_name and not listed else [])


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=130)
QUARANTINED = st.builds(
    QuarantinedTable,
    NAMES,
    st.integers(0, 2**62),
    st.sampled_from(["file-lost", "target-diverged"]),
    st.just(kept_entries.REASON),
    name=st.none(),
) | st.builds(
    QuarantinedTable,
    NAMES,
    st.integers(0, 2**62),
    st.just("file-lost"),
    st.just(kept_entries.REASON),
    name=NAMES,
    write_id=st.integers(0, 2**62),
    held=st.lists(st.tuples(st.integers(1, 2**62), st.integers(1, 2**62)), max_size=kept_entries.HELD_MAX),
    loaded_write_id=st.integers(0, 2**62),
)
LOADS = st.builds(
    TableLoad,
    NAMES,
    st.just("id"),
    st.sampled_from(["bootstrap", "release", "repair", "in-scope", "gap"]),
    st.just(0),
)


@given(
    st.lists(QUARANTINED, max_size=60),
    st.lists(LOADS, max_size=60),
    st.lists(st.builds(LeftTable, NAMES), max_size=20),
    st.none() | st.integers(0, 2**40),
)
def test_entries_are_read_back_as_they_were_written(
    quarantined: list[QuarantinedTable],
    waits: list[TableLoad],
    left: list[LeftTable],
    paused_since_s: int | None,
) -> None:
    parameters = format_entries(quarantined, waits, left, paused_since_s)
    assert all(len(value) <= PIECE_CHARACTERS for value in parameters.values())
    read = parse_entries({"team": "a", **parameters})
    assert read.complete
    assert list(read.quarantined) == quarantined
    assert list(read.waiting) == [(load.table, load.reason) for load in waits]
    assert list(read.left) == [entry.table for entry in left]
    assert read.paused_since_s == paused_since_s


def test_too_many_entries_make_the_list_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_entries, "PIECES_MAX", 2)
    many = [
        QuarantinedTable(f"a_long_name_of_a_table_{number}", 1, "file-lost", "") for number in range(1000)
    ]
    parameters = format_entries(many, [])
    assert list(parameters.values()) == ["*"]
    assert not parse_entries(parameters).complete


@pytest.mark.parametrize(
    "text", ["orders", "orders:x:y", "a:b:c:d", "a:1:c:a;1", "a:1:c:a;1;1;x", "", "orders:unheard-of"]
)
def test_an_entry_that_cannot_be_read_makes_the_list_incomplete(text: str) -> None:
    assert not parse_entries({KEPT: text}).complete
