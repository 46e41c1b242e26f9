"""Commits that reach replay without their write events, as from a publisher that copies the notification
log."""

from __future__ import annotations

from dataclasses import replace

from dev.stack.hive.sql_session import Session
from handlers.events import Event, FilesWritten, TxnCommitted
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, create_source


def strip_writes(event: Event) -> Event | None:
    """Return the event as a bare notification log has it."""
    if isinstance(event, FilesWritten):
        return None
    if isinstance(event, TxnCommitted):
        return replace(event, enriched=False, part=0, parts=1)
    return event


def test_bare_commits_get_their_files_from_the_sources_metastore(
    replica: Replica, source_sql: Session
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) {ACID}")
    source_sql.run(f"insert into {db}.t values (1), (2)")
    source_sql.run(f"delete from {db}.t where id = 1")
    events = replica.events(replica.projection.open().event_id)
    assert any(isinstance(event, FilesWritten) for event in events)
    replica.projection.apply([bare for event in events if (bare := strip_writes(event)) is not None])
    replica.projection.settle()
    assert replica.quarantined() == {}
    assert replica.differences() == []
