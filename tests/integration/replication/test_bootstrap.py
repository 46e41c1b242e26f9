"""Bootstrap of a database that holds data, killed on the way. The full matrix is in
``tests/crash/test_bootstrap_crash.py``."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dev.demo.compare import Side, compare_databases
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap import is_pending
from handlers.replication.loading.bootstrap_run import BootstrapOptions
from handlers.replication.loading.table.tools import LoadSettings
from tests.builders.replication.failpoint_names import LOADING, find_failpoints
from tests.builders.replication.loads import Interleaved, load_waiting_tables
from tests.builders.replication.replay_kills import BOOTSTRAP_STEPS, KilledReplay
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import ACID, QUERIES, Written, roll_back, write_all


KILLS = 4


def test_every_failpoint_of_a_bootstrap_is_tested() -> None:
    assert set(find_failpoints(LOADING, "load.", "bootstrap.")) == set(BOOTSTRAP_STEPS)


def test_a_bootstrap_that_is_killed_ends_equal_to_its_source(
    written: Written,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    tmp_path: Path,
) -> None:
    replay = KilledReplay.of(written, source, target, tmp_path, "tests.crash.programs.bootstrap_program")
    steps = sorted(random.sample(BOOTSTRAP_STEPS, KILLS), key=BOOTSTRAP_STEPS.index)
    assert [step for step in steps if not replay.run(f"{step}:1")] == []
    assert not replay.run()
    assert replay.differences(files=False) == [], steps
    for table, query in QUERIES.items():
        ours, theirs = query.format(db=written.db), query.format(db=replay.target_db)
        assert source_sql.rows(ours) == target_sql.rows(theirs), (table, steps)


def test_a_bootstrapped_policy_follows_from_the_event_of_its_beginning(
    written: Written, source: ClusterEndpoints, target: ClusterEndpoints
) -> None:
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=written.db,
        target_db=f"{written.db}_f",
        roots=[source.warehouse, source.external, source.cmroot],
    )
    try:
        started = replica.projection.open()
        parameters = replica.target.get_database(replica.policy.target_db).parameters or {}
        assert parameters["repl.last.id"] == str(started.event_id)
        assert "tideline.bootstrap" not in parameters
        assert not is_pending(replica.store)
        loads = replica.context.tables.loads.entries()
        assert all(load.is_loaded and load.event_id >= started.event_id for load in loads)
        assert replica.projection.open() == started
    finally:
        replica.projection.close()


def statements(sql: Session, db: str) -> list[Callable[[], object]]:
    """What writers do while the small workload's database is bootstrapped."""
    texts = [
        "insert into {db}.bought values (10,'ten')",
        "update {db}.bought set item = 'TEN' where id = 10",
        "insert into {db}.visits partition (dt='e') values (5,'/e')",
        "insert into {db}.plain values (4)",
        "delete from {db}.bought where id = 1",
        "insert overwrite table {db}.visits partition (dt='a') values (6,'/again')",
        "alter table {db}.orders rename to {db}.sold",
        "create table {db}.orders (id int, item string) " + ACID,
        "insert into {db}.orders values (70,'newer')",
        "insert overwrite table {db}.plain values (5)",
        "alter table {db}.visits drop partition (dt='c')",
        "insert into {db}.sold values (8,'sold')",
        "create table {db}.sums " + ACID + " as select item, count(*) as n from {db}.bought group by item",
        "alter table {db}.visits partition (dt='e') rename to partition (dt='f')",
        "truncate table {db}.sums",
        "insert into {db}.bought values (11,'eleven')",
    ]
    run: list[Callable[[], object]] = [lambda text=text: sql.run(text.format(db=db)) for text in texts]  # type: ignore[misc]
    run.insert(5, lambda: roll_back(sql, f"insert into {db}.bought values (666,'never')"))
    return run


@pytest.mark.long
def test_a_bootstrap_with_concurrent_writers_ends_equal_to_its_source(
    source: ClusterEndpoints, target: ClusterEndpoints, source_sql: Session, target_sql: Session
) -> None:
    db = f"busy_{uuid.uuid4().hex[:8]}"
    with closing(Metastore([source.metastore])) as metastore:
        write_all(source_sql, metastore, db)
    writers = Interleaved(statements(source_sql, db))
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, source.external, source.cmroot],
        bootstrap=BootstrapOptions(LoadSettings(poll_s=0.05), progress=writers),
    )
    with closing(replica.projection):
        writers.run_next()
        replica.projection.open()
        writers.run_rest()
        replica.follow()
        assert replica.quarantined() == {}
        load_waiting_tables(replica)  # what was renamed during the bootstrap
        assert replica.context.tables.loads.waiting() == ()
        assert replica.quarantined() == {}
        queries = {
            **QUERIES,
            "sold": "select * from {db}.sold order by id",
            "sums": "select * from {db}.sums order by item",
        }
        ours = Side(replica.source, source_sql, db)
        theirs = Side(replica.target, target_sql, replica.policy.target_db)
        found = compare_databases(ours, theirs, queries).list_differences()
        assert [line for line in found if "COLUMN_STATS_ACCURATE" not in line] == []
