"""Bootstrap of a database that holds data, killed on the way. The full matrix is in ``tests/crash/test_bootstrap_crash.py``."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

from handlers.replication.loading.bootstrap import is_pending
from tests.builders.replication.replay_kills import BOOTSTRAP_STEPS, PROJECT, KilledReplay
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import QUERIES, Written


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.hive.sql_session import Session


KILLS = 4


def test_every_failpoint_of_a_bootstrap_is_tested() -> None:
    named: set[str] = set()
    for module in Path(PROJECT / "handlers" / "replication" / "loading").glob("*.py"):
        named.update(re.findall(r'failpoint\("((?:load|bootstrap)\.[^"]+)"\)', module.read_text()))
    assert named == set(BOOTSTRAP_STEPS)


def test_a_bootstrap_that_is_killed_ends_equal_to_its_source(
    written: Written,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    tmp_path: Path,
) -> None:
    replay = KilledReplay.of(written, source, target, tmp_path, "tests.crash.bootstrap_program")
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
        loads = replica.context.loads.entries()
        assert all(load.is_loaded and load.event_id >= started.event_id for load in loads)
        assert replica.projection.open() == started
    finally:
        replica.projection.close()
