"""Delivering the whole log again changes nothing on the target: no call with an effect, and no file."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.events import Event, FilesWritten, TxnAborted, TxnCommitted, WriteIdsAllocated
from handlers.metastore.client import Metastore
from handlers.structs.objects import Partition
from state.store import Store
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import QUERIES, Written
from tests.builders.replication.stepped_loads import SteppedLoads


Make = Callable[..., Replica]


@pytest.fixture
def make(source: ClusterEndpoints, target: ClusterEndpoints, written: Written) -> Iterator[Make]:
    """Replicas of the small workload that share one target database."""
    target_db = f"{written.db}_{uuid.uuid4().hex[:6]}"
    made: list[Replica] = []

    def build(*, start: bool | int, store: Store | None = None) -> Replica:
        roots = [source.warehouse, source.external, source.cmroot]
        uris = (source.metastore, target.metastore)
        replica = build_replica(
            *uris, db=written.db, target_db=target_db, roots=roots, start=start, store=store
        )
        made.append(replica)
        return replica

    yield build
    for replica in made:
        replica.projection.close()


def state_of_target(replica: Replica) -> dict[str, Any]:
    """Return everything that an effect would change: objects, write ids, the target's log, and files with
    their times."""
    target, db = replica.target, replica.policy.target_db
    tables = sorted(target.table_names(db))  # the metastore lists them in any order
    return {
        "tables": {name: repr(target.get_table(db, name)) for name in tables},
        "partitions": {name: repr(list(partitions_of(target, db, name))) for name in tables},
        "write ids": [  # but for aborted ones, which the target forgets by itself
            (valid.table, valid.high_water_mark, valid.open)
            for valid in target.valid_write_ids([f"{db}.{name}" for name in tables])
        ],
        "events": [  # but for the claim of the database by each new process
            event.eventId
            for event in target.next_events(0, -1)
            if event.dbName == db and event.eventType != "ALTER_DATABASE"
        ],
        "files": {
            str(path): (path.stat().st_mtime_ns, path.stat().st_ino)
            for name in tables
            for path in Path(urlsplit(target.get_table(db, name).sd.location or "").path).rglob("*")
        },
    }


def partitions_of(metastore: Metastore, db: str, table: str) -> Iterator[Partition]:
    if metastore.get_table(db, table).partitionKeys:
        yield from metastore.all_partitions(db, table)


def test_replaying_every_event_again_changes_nothing(make: Make, written: Written) -> None:
    replica = make(start=written.before)
    replica.follow(upto=written.last)
    before = state_of_target(replica)
    assert replica.differences() == []
    replica.projection.open()
    position = replica.projection.apply(replica.events(written.before, upto=written.last))
    assert position.event_id == written.last
    assert state_of_target(replica) == before


def test_a_state_file_from_an_old_backup_changes_nothing(make: Make, written: Written) -> None:
    first = make(start=written.before)
    first.follow(upto=written.last)
    before = state_of_target(first)
    restored = make(start=written.before)
    restored.follow(upto=written.last)
    assert state_of_target(restored) == before
    assert len(restored.context.tables.write_ids) == 0
    restored.context.tables.write_ids.check()


def test_without_its_state_file_a_replica_continues_from_the_targets_own_position(
    make: Make, written: Written
) -> None:
    first = make(start=written.before)
    middle = _at_rest(first.events(written.before, upto=written.last), written)
    first.follow(upto=middle)
    assert first.context.target_position.read() == middle
    second = make(start=False)
    assert second.projection.open().event_id == middle
    second.follow(upto=written.last)
    assert second.context.tables.loads.waiting() == (), "all write ids of later transactions are known"
    assert second.differences() == []
    before = state_of_target(second)
    third = make(start=False)
    third.projection.open()
    third.projection.apply(third.events(written.before, upto=written.last))
    assert state_of_target(third) == before


def test_tables_of_transactions_that_were_open_when_the_state_file_was_lost_are_loaded(
    make: Make, written: Written, source_sql: Session, target_sql: Session
) -> None:
    first = make(start=written.before)
    inside = _inside_of_the_insert_into_two_partitions(
        first.events(written.before, upto=written.last), written
    )
    first.follow(upto=inside)
    assert first.context.target_position.read() == inside
    second = make(start=False)
    second.follow(upto=written.last)
    assert [load.table for load in second.context.tables.loads.waiting()] == ["visits"]
    SteppedLoads(second).finish()
    second.projection.settle()
    assert second.differences(files=False) == []
    for table, query in QUERIES.items():
        expected = source_sql.rows(query.format(db=written.db))
        assert target_sql.rows(query.format(db=second.policy.target_db)) == expected, table


def _at_rest(events: list[Event], written: Written) -> int:
    """Return the last event of the log's first half after which no transaction of the database is open."""
    middle, open_txns, found = (written.before + written.last) // 2, set[int](), written.before
    for event in events:
        if isinstance(event, WriteIdsAllocated) and event.db == written.db:
            open_txns |= {txn_id for txn_id, _ in event.pairs}
        elif isinstance(event, TxnCommitted | TxnAborted):
            open_txns.discard(event.txn_id)
        if not open_txns and event.event_id <= middle and event.part == event.parts - 1:
            found = event.event_id
    assert found > written.before
    return found


def _inside_of_the_insert_into_two_partitions(events: list[Event], written: Written) -> int:
    """Return the last event before the end of the transaction
    that writes ``dt=b`` and ``dt=c`` of ``visits``.

    Hive omits one of these partitions from its write events. Write events have the id of their commit.
    """
    return next(
        event.event_id - 1
        for event in events
        if isinstance(event, FilesWritten)
        and (event.db, event.table) == (written.db, "visits")
        and event.partition_name in {"dt=b", "dt=c"}
    )
