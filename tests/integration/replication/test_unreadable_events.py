"""Events that cannot be read and name no table harm only the tables that they concern, and these are
loaded."""

from __future__ import annotations

from dev.stack.hive.sql_session import Session
from handlers.events import Event, TableAltered, Undecodable
from state.errors import LimitExceeded
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.stepped_loads import SteppedLoads


def nameless(event: Event) -> Undecodable:
    """Return the event as the relay writes it if the metastore cannot return it and its names are not
    found."""
    error = LimitExceeded("the metastore's answer is too large")
    return Undecodable(event_id=event.event_id, time_s=event.time_s, kind="UNREADABLE", error=error)


def test_a_table_whose_event_cannot_be_read_is_loaded_and_a_dropped_database_harms_nobody(
    replica: Replica, source_sql: Session, target_sql: Session
) -> None:
    db, copy = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    for table in ("kept", "torn", "also_kept"):
        source_sql.run(f"create table {db}.{table} (id int) {ACID}")
    source_sql.run(f"insert into {db}.torn values (1)")
    position = replica.follow()
    source_sql.run(f"create database {db}_dropped")
    source_sql.run(f"create table {db}_dropped.t (id int)")
    source_sql.run(f"drop database {db}_dropped cascade")
    source_sql.run(f"alter table {db}.torn add columns (word string)")
    source_sql.run(f"insert into {db}.torn values (2, 'two')")
    events = [
        nameless(event)
        if event.db == f"{db}_dropped" or (isinstance(event, TableAltered) and event.table == "torn")
        else event
        for event in replica.events(position.event_id)
    ]
    assert sum(isinstance(event, Undecodable) for event in events) > 4
    replica.projection.apply(events)
    assert [load.table for load in replica.context.tables.loads.waiting()] == ["torn"]
    assert replica.quarantined() == {}
    SteppedLoads(replica).finish()
    source_sql.run(f"insert into {db}.torn values (3, 'three')")
    replica.projection.apply(replica.events(replica.projection.position.event_id))
    replica.projection.settle()
    query = "select id, word from {}.torn order by id"
    assert target_sql.rows(query.format(copy)) == source_sql.rows(query.format(db))
    assert replica.differences(files=False) == []
