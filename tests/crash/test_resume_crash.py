"""A table that resumes after its quarantine is killed at every pass through every failpoint, and must end
equal to the source."""

from __future__ import annotations

import logging
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from state.store.sqlite import SqliteStore
from tests.builders.replication.replay_kills import KilledReplay
from tests.builders.replication.replica import Replica, build_replica, start_after
from tests.builders.replication.small_workload import ACID, Written, create_source, roll_back
from tests.integration.conftest import source, stack, target


__all__ = ["source", "stack", "target"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

STEPS = (
    "resume.after-record",
    "catch-up.before-event",
    "catch-up.after-event",
    "catch-up.before-progress",
    "catch-up.after-progress",
    "replay.before-effect",
    "replay.after-effect",
    "replay.before-open",
    "replay.after-open",
    "replay.after-allocate",
    "replay.before-copies",
    "replay.after-copies",
    "replay.before-commit",
    "replay.after-commit",
    "replay.after-proof",
    "replay.before-abort",
    "replay.after-abort",
    "replay.before-position",
    "replay.after-position",
)


@dataclass(frozen=True)
class Stopped:
    """A history in which the target refuses one alteration of table ``t``; the events at which a replica must
    be prepared."""

    written: Written
    before_alter: int
    alter: int
    released: int


@pytest.fixture(scope="module")
def stopped(source: ClusterEndpoints) -> Stopped:  # noqa: F811 - a fixture asks for fixtures by their names
    db = f"resume_{uuid.uuid4().hex[:8]}"
    with (
        Session.connect(source.sql) as sql,
        closing(WritingMetastore([source.metastore])) as writer,
        closing(Metastore([source.metastore])) as metastore,
    ):
        before = metastore.current_event_id()
        create_source(sql, db)
        sql.run(f"create table {db}.t (id int) {ACID}")
        sql.run(f"create table {db}.other (id int) {ACID}")
        sql.run(f"insert into {db}.t values (1)")
        held, _ = writer.open_write(db, "t")
        before_alter = metastore.current_event_id()
        sql.run(f"alter table {db}.t set tblproperties ('note'='1')")
        alter = metastore.current_event_id()
        sql.run(f"insert into {db}.t values (2)")
        sql.run(f"from {db}.t s insert into {db}.t select s.id + 10 insert into {db}.other select s.id")
        roll_back(sql, f"insert into {db}.t values (666)")
        sql.run(f"delete from {db}.t where id = 2")
        released = metastore.current_event_id()
        writer.commit_txn(held)
        sql.run(f"insert into {db}.t values (3)")
        return Stopped(Written(db, before, metastore.current_event_id()), before_alter, alter, released)


def prepare(replay: KilledReplay, stopped: Stopped) -> None:
    """Make a replica whose table ``t`` is quarantined, and whose other tables are followed up to the
    release."""
    store = SqliteStore(replay.state, schema_version=1)
    start_after(store, stopped.written.before)
    replica = build_replica(
        replay.source.metastore,
        replay.target.metastore,
        db=replay.written.db,
        target_db=replay.target_db,
        roots=replay.roots,
        store=store,
        start=False,
    )
    with closing(replica.projection):
        replica.follow(upto=stopped.before_alter)
        rename(replica, "t", "away")
        replica.follow(upto=stopped.alter)
        rename(replica, "away", "t")
        replica.follow(upto=stopped.released)
        assert list(replica.quarantined()) == ["t"]


def rename(replica: Replica, old: str, new: str) -> None:
    with closing(replica.target.clone()) as client:
        table = client.get_table(replica.policy.target_db, old)
        table.tableName = new
        client.alter_table(replica.policy.target_db, old, table)


@pytest.mark.parametrize("step", STEPS)
def test_a_table_that_resumes_ends_equal_to_its_source_wherever_it_is_killed(
    step: str,
    stopped: Stopped,
    source: ClusterEndpoints,  # noqa: F811 - likewise
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    """The n-th run is killed at its n-th pass through the failpoint, so that each run gets further, until one
    finishes."""
    replay = KilledReplay.of(stopped.written, source, target, tmp_path, "tests.crash.programs.resume_program")
    prepare(replay, stopped)
    kills = 0
    while replay.run(f"{step}:{kills + 1}"):
        kills += 1
    log.info("%s: killed %d times", step, kills)
    assert kills > 0
    assert replay.differences() == []
    with Session.connect(target.sql) as sql:
        rows = sql.rows(f"select id from {replay.target_db}.t order by id")
    assert rows == [("1",), ("3",), ("11",), ("12",)]
    with closing(Metastore([target.metastore])) as metastore:
        assert metastore.replayed_txns(f"{replay.target_db}.*") == {}
