"""A run is killed between a commit and its record, and the source loses the files before the next run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.events import Event, FilesWritten
from handlers.replication.transactions import transaction_replay as transactions
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.integration.replication.test_lost_files import unlink_files


class KilledError(Exception):
    """Ends a run at a failpoint."""


def without_checksums(event: Event) -> Event:
    """Return the event as a source on S3 or HDFS would log it."""
    if not isinstance(event, FilesWritten):
        return event
    files = tuple(replace(file, checksum=None, cm_root=None) for file in event.files)
    return replace(event, files=files)


@pytest.mark.parametrize("state_is_lost", [False, True], ids=["killed", "killed, and the state file lost"])
def test_rows_that_are_committed_on_the_target_stay_if_the_source_loses_their_files(
    replica: Replica,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    monkeypatch: pytest.MonkeyPatch,
    *,
    state_is_lost: bool,
) -> None:
    db, events = replica.policy.source_db, replica.events
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) {ACID}")
    source_sql.run(f"insert into {db}.t values (1), (2)")
    log = [without_checksums(event) for event in events(replica.projection.open().event_id)]

    def die(name: str) -> None:
        if name == "replay.after-commit":
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(transactions, "failpoint", die)
        patched.setattr(replica.projection._recorded, "record", lambda: None)
        with pytest.raises(KilledError):
            replica.projection.apply(log)
    unlink_files(replica.source, db, "t", "delta_0000001_")

    following = build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, source.external, source.cmroot],
        store=None if state_is_lost else replica.store,
        start=False,
    )
    position = following.projection.open()
    following.projection.apply([e for e in log if not position.covers(e.event_id, e.part)])
    assert following.quarantined() == {}
    assert target_sql.rows(f"select id from {replica.policy.target_db}.t order by id") == [("1",), ("2",)]
    following.projection.close()
