"""A multi-insert into static partitions whose files are compacted before the replica copies them.

Hive logs a write event for the first partition only. Compaction is done by hand, because the shared stack has
no compactor: one base replaces the writes, and the change manager keeps their files, as Hive's cleaner does
for a replicated database.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.relay.publisher import RelaySettings
from daemon.sources.outbox import Outbox
from daemon.sources.unlogged_partitions import UnloggedPartitions
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.decoding.decoder import decode
from handlers.events import Event
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import verify


def write_and_compact(
    sql: Session, source: ClusterEndpoints, db: str, *, listing: bool
) -> tuple[int, list[Event]]:
    """Write into partitions a, b and c, relay the events, then compact b; return the event before, and the
    relayed ones."""
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, db)
        sql.run(f"create table {db}.numbers (id int) {ACID}")
        sql.run(f"create table {db}.parts (id int) partitioned by (dt string) {ACID}")
        sql.run(f"insert into {db}.numbers values (1), (2)")
        sql.run(f"insert into {db}.parts partition (dt='b') values (10)")
        inserts = (f"insert into {db}.parts partition (dt='{day}') select s.id" for day in "abc")
        sql.run(f"from {db}.numbers s {' '.join(inserts)}")
        events = relay_events(source, db, before, listing=listing)
        sql.run(f"insert into {db}.parts partition (dt='b') values (11)")
        location = metastore.get_partition_by_name(db, "parts", "dt=b").sd.location
    compact(Path(urlsplit(location or "").path), Path(urlsplit(source.cmroot).path or source.cmroot))
    return before, events


def relay_events(source: ClusterEndpoints, db: str, before: int, *, listing: bool) -> list[Event]:
    """Relay all events after ``before``."""
    roots = AllowedRoots.of([source.warehouse, source.external, source.cmroot])
    unlogged = UnloggedPartitions([db], open_file_systems(), roots) if listing else None
    relay = Outbox(
        lambda: Metastore([source.metastore]),
        RelaySettings(source="s"),
        hard_bytes_max=1 << 20,
        unlogged=unlogged,
    )
    with closing(relay):
        return [
            decode(record.value, record.headers)
            for record in relay.records(before + 1, relay.current_event_id())
        ]


def compact(partition: Path, cmroot: Path) -> None:
    """Move the files of all writes to the change manager, and put one base in their place."""
    files = [path for path in partition.rglob("bucket_*") if path.parent.name.startswith("delta_")]
    assert len(files) == 3
    base = partition / "base_0000003_v0000999"
    base.mkdir()
    shutil.copy(files[-1], base / files[-1].name)
    for path in files:
        checksum = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        path.rename(cmroot / f"{path.name}_{checksum}")
        shutil.rmtree(path.parent)


def replay(
    source: ClusterEndpoints, target: ClusterEndpoints, db: str, before: int, events: list[Event]
) -> Replica:
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=db, roots=roots, start=before)
    replica.projection.open()
    replica.projection.apply(events)
    return replica


def follow_rest(replica: Replica) -> None:
    """Replay everything that the source has logged since the replica's position."""
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    replica.projection.settle()


def require_equal_rows(
    replica: Replica, table: str, source_sql: Session, target_sql: Session
) -> list[tuple[str, ...]]:
    """Require that both sides of a table are equal and have rows; return them."""
    query = "select dt, id from {}.{} order by dt, id"
    rows = source_sql.rows(query.format(replica.policy.source_db, table))
    assert target_sql.rows(query.format(replica.policy.target_db, table)) == rows != []
    assert verify(replica, table)[table].differences == ()
    return rows


@pytest.mark.parametrize("listing", [True, False])
def test_rows_that_hive_did_not_log_and_a_compaction_removed_are_replicated_or_their_table_is_loaded(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    *,
    listing: bool,
) -> None:
    """With a relay that lists them, the rows are equal; without, the loss is noticed and never shown."""
    before, events = write_and_compact(source_sql, source, database, listing=listing)
    replica = replay(source, target, database, before, events)
    with closing(replica.projection):
        rows = target_sql.rows(f"select dt, id from {database}_r.parts order by dt, id")
        if listing:
            assert replica.quarantined() == {}
            assert rows == [(day, str(n)) for day in "abc" for n in ((1, 2, 10) if day == "b" else (1, 2))]
        else:
            assert replica.quarantined() == {}
            assert [(each.table, each.reason) for each in replica.context.tables.loads.waiting()] == [
                ("parts", "files-gone")
            ]
            assert rows == [("b", "10")], "the state before the transaction"


def test_a_table_whose_unlogged_partitions_were_dropped_or_renamed_meanwhile_is_loaded_again_by_itself(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
) -> None:
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.numbers (id int) {ACID}")
    source_sql.run(f"create table {database}.parts (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {database}.numbers values (1), (2)")
    inserts = (f"insert into {database}.parts partition (dt='{day}') select s.id" for day in "abcd")
    source_sql.run(f"from {database}.numbers s {' '.join(inserts)}")
    source_sql.run(f"alter table {database}.parts partition (dt='b') rename to partition (dt='e')")
    source_sql.run(f"alter table {database}.parts drop partition (dt='c')")
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=database, roots=roots, start=before)
    with closing(replica.projection):
        replica.follow()
        assert replica.quarantined() == {}
        assert [each.table for each in replica.context.tables.loads.waiting()] == ["parts"]
        SteppedLoads(replica).finish()
        source_sql.run(f"insert into {database}.parts partition (dt='e') values (3)")
        follow_rest(replica)
        rows = require_equal_rows(replica, "parts", source_sql, target_sql)
        assert [day for day, _ in rows] == ["a", "a", "d", "d", "e", "e", "e"]


@pytest.mark.parametrize("listing", [True, pytest.param(False, marks=pytest.mark.long)])
def test_rows_that_hive_did_not_log_are_never_taken_from_a_table_that_has_the_name_by_then(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    *,
    listing: bool,
) -> None:
    """Two tables with the same partitions and write ids, of which one takes the other's place."""
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.numbers (id int) {ACID}")
    source_sql.run(f"insert into {database}.numbers values (1), (2)")
    for table, first in (("parts", 0), ("parts_new", 10)):
        source_sql.run(f"create table {database}.{table} (id int) partitioned by (dt string) {ACID}")
        inserts = (
            f"insert into {database}.{table} partition (dt='{day}') select s.id + {first}" for day in "abc"
        )
        source_sql.run(f"from {database}.numbers s {' '.join(inserts)}")
    source_sql.run(f"alter table {database}.parts rename to {database}.parts_old")
    source_sql.run(f"alter table {database}.parts_new rename to {database}.parts")
    events = relay_events(source, database, before, listing=listing)
    replica = replay(source, target, database, before, events)
    with closing(replica.projection):
        assert replica.quarantined() == {}
        SteppedLoads(replica).finish()
        source_sql.run(f"insert into {database}.parts_old partition (dt='b') values (3)")
        follow_rest(replica)
        for table in ("parts", "parts_old"):
            require_equal_rows(replica, table, source_sql, target_sql)


@pytest.mark.parametrize("listing", [True, pytest.param(False, marks=pytest.mark.long)])
def test_rows_that_hive_did_not_log_are_never_taken_from_a_partition_that_has_the_values_by_then(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
    *,
    listing: bool,
) -> None:
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.numbers (id int) {ACID}")
    source_sql.run(f"insert into {database}.numbers values (1), (2)")
    source_sql.run(f"create table {database}.parts (id int) partitioned by (dt string) {ACID}")
    inserts = (
        f"insert into {database}.parts partition (dt='{day}') select s.id + {first}"
        for day, first in (("a", 0), ("b", 10))
    )
    source_sql.run(f"from {database}.numbers s {' '.join(inserts)}")
    for old, new in ("bc", "ab"):
        source_sql.run(
            f"alter table {database}.parts partition (dt='{old}') rename to partition (dt='{new}')"
        )
    replica = replay(
        source, target, database, before, relay_events(source, database, before, listing=listing)
    )
    with closing(replica.projection):
        assert replica.quarantined() == {}
        SteppedLoads(replica).finish()
        source_sql.run(f"insert into {database}.parts partition (dt='b') values (3)")
        follow_rest(replica)
        require_equal_rows(replica, "parts", source_sql, target_sql)
