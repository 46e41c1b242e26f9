"""Tables that return from quarantine or enter a policy, while the other tables are followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.events import Event
from handlers.metastore.client import Metastore
from state.errors import InvalidRequest
from tests.builders.daemon.loops import eventually
from tests.builders.replication.replica import Replica, build_replica, files_below
from tests.builders.replication.small_workload import ACID, create_source, roll_back
from tests.builders.replication.stepped_loads import SteppedLoads


@pytest.fixture
def replica(source: ClusterEndpoints, target: ClusterEndpoints, database: str) -> Iterator[Replica]:
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
    roots = [source.warehouse, source.external, source.cmroot]
    built = build_replica(
        source.metastore, target.metastore, db=database, roots=roots, start=before, exclude=("out_*",)
    )
    yield built
    built.projection.close()


@pytest.mark.long
def test_a_quarantined_table_and_a_newcomer_are_loaded_while_the_others_are_followed(
    replica: Replica, source_sql: Session, target_sql: Session
) -> None:
    db, copy = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table in ("lost", "other", "out_new"):
        source_sql.run(f"create table {db}.{table} (id int) {ACID}")
        source_sql.run(f"insert into {db}.{table} values (1)")
    replica.follow()
    source_sql.run(f"insert into {db}.lost values (2)")
    location = replica.source.get_table(db, "lost").sd.location or ""
    hidden = [name for name in files_below(location) if "delta_0000002_" in name]
    _move_files(location, hidden, away=True)
    replica.follow()
    assert replica.quarantined() == {"lost": "file-lost"}

    _move_files(location, hidden, away=False)
    loader = SteppedLoads(replica)
    replica.projection.loads.request(["lost"], "release")
    source_sql.run(f"alter table {db}.out_new rename to {db}.new")
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    assert [entry.table for entry in replica.context.tables.loads.waiting()] == ["lost", "new"]
    loader.step()
    eventually(lambda: loader.thread.table == "lost")
    source_sql.run(f"insert into {db}.lost values (3)")
    source_sql.run(
        f"from {db}.other s insert into {db}.lost select s.id + 10 insert into {db}.other select s.id + 20"
    )
    roll_back(source_sql, f"insert into {db}.lost values (666)")
    source_sql.run(f"update {db}.new set id = 5 where id = 1")
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    assert target_sql.rows(f"select id from {copy}.other order by id") == [("1",), ("21",)], (
        "others are followed"
    )

    loader.finish()
    source_sql.run(f"insert into {db}.lost values (4)")
    source_sql.run(f"insert into {db}.new values (6)")
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    replica.projection.settle()
    for table in ("lost", "other", "new"):
        query = "select id from {}." + table + " order by id"
        assert target_sql.rows(query.format(copy)) == source_sql.rows(query.format(db)), table
    assert replica.quarantined() == {}
    assert [line for line in replica.differences(files=False) if "out_" not in line] == []


@pytest.mark.long
def test_a_released_table_resumes_without_copying_earlier_files_unless_a_writer_ended_meanwhile(
    replica: Replica, source: ClusterEndpoints, source_sql: Session, target_sql: Session
) -> None:
    """The target refuses an alteration because another client renamed the tables there; the cause is removed
    later."""
    db, copy = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table in ("resumed", "ended", "other"):
        source_sql.run(f"create table {db}.{table} (id int) {ACID}")
    source_sql.run(f"insert into {db}.resumed values (1)")
    with closing(WritingMetastore([source.metastore])) as writer:
        held = {table: writer.open_write(db, table)[0] for table in ("resumed", "ended")}
        replica.follow()
        before = _inodes(replica, "resumed")
        for table in held:
            _rename_on_target(replica, table, f"{table}_away")
            source_sql.run(f"alter table {db}.{table} set tblproperties ('note'='2')")
        replica.projection.apply(replica.events(replica.projection.position.event_id))
        assert set(replica.quarantined()) == {"ended", "resumed"}

        for table in held:
            _rename_on_target(replica, f"{table}_away", table)
        source_sql.run(f"insert into {db}.resumed values (2)")
        source_sql.run(
            f"from {db}.resumed s insert into {db}.resumed select s.id + 10 insert into {db}.other select "
            "s.id"
        )
        source_sql.run(f"delete from {db}.resumed where id = 2")
        writer.commit_txn(held["ended"])
        replica.projection.apply(replica.events(replica.projection.position.event_id))

        def read(after: int, upto: int) -> list[Event]:
            return replica.events(after, upto=upto)

        copied = replica.context.copies.counters().files
        resumed = replica.projection.loads.release("resumed", read)
        assert resumed.reason is None
        ended = replica.projection.loads.release("ended", read)
        assert f"ended or are unknown: {held['ended']}" in (ended.reason or "")
        while replica.projection.loads.catch_up(read):
            pass
        after = _inodes(replica, "resumed")
        assert {name: after[name] for name in before} == before, "no earlier file was copied again"
        assert replica.context.copies.counters().files - copied == len(after) - len(before) > 0
        SteppedLoads(replica).finish()
        writer.commit_txn(held["resumed"])
    source_sql.run(f"insert into {db}.ended values (7)")
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    replica.projection.settle()
    for table in ("resumed", "ended", "other"):
        query = "select id from {}." + table + " order by id"
        assert target_sql.rows(query.format(copy)) == source_sql.rows(query.format(db)), table
    assert replica.quarantined() == {}
    assert replica.differences(files=False) == []
    assert replica.target.replayed_txns(replica.policy.txn_map_key) == {}


def _rename_on_target(replica: Replica, old: str, new: str) -> None:
    with closing(replica.target.clone()) as client:
        table = client.get_table(replica.policy.target_db, old)
        table.tableName = new
        client.alter_table(replica.policy.target_db, old, table)


def _inodes(replica: Replica, table: str) -> dict[str, int]:
    location = replica.target.get_table(replica.policy.target_db, table).sd.location or ""
    root = Path(urlsplit(location).path)
    return {name: (root / name).stat().st_ino for name in files_below(location)}


def test_a_policy_whose_events_were_lost_loads_all_tables_and_continues(
    replica: Replica, source_sql: Session, target_sql: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, copy = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table in ("kept", "dropped"):
        source_sql.run(f"create table {db}.{table} (id int) {ACID}")
        source_sql.run(f"insert into {db}.{table} values (1)")
    position = replica.follow()
    with pytest.raises(InvalidRequest, match="has no gap"):
        replica.projection.cross_gap()

    source_sql.run(f"update {db}.kept set id = 2 where id = 1")
    source_sql.run(f"drop table {db}.dropped")
    source_sql.run(f"create table {db}.made (id int) {ACID}")
    source_sql.run(f"insert into {db}.made values (7)")
    purged, read = replica.source.current_event_id(), replica.source.next_events
    monkeypatch.setattr(replica.source, "next_events", lambda after, limit: read(max(after, purged), limit))
    crossed = replica.projection.cross_gap()
    assert crossed.after == position.event_id
    assert crossed.upto >= purged, "tests beside this one write events to the same source"
    assert crossed.tables == ("dropped", "kept", "made")

    loader = SteppedLoads(replica)
    loader.finish()
    for table in ("kept", "made"):
        source_sql.run(f"insert into {db}.{table} values (9)")
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    replica.projection.settle()
    assert target_sql.rows(f"select id from {copy}.kept order by id") == [("2",), ("9",)]
    assert target_sql.rows(f"select id from {copy}.made order by id") == [("7",), ("9",)]
    assert sorted(replica.target.table_names(copy)) == ["kept", "made"]
    assert replica.differences(files=False) == []


def _move_files(location: str, names: list[str], *, away: bool) -> None:
    """Move files of a table out of sight, or back."""
    assert names
    for name in names:
        path = Path(urlsplit(location).path) / name
        hidden = path.with_name("_hidden." + path.name)
        if away:
            path.rename(hidden)
        else:
            hidden.rename(path)
