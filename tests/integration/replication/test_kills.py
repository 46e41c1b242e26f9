"""One replica, killed at some failpoints of replay. The full matrix is in
``tests/crash/test_replay_crash.py``."""

from __future__ import annotations

import random
from pathlib import Path

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from tests.builders.replication.failpoint_names import find_failpoints
from tests.builders.replication.replay_kills import STEPS, KilledReplay
from tests.builders.replication.small_workload import QUERIES, Written


KILLS = 6


def test_every_failpoint_of_replay_is_tested() -> None:
    assert set(find_failpoints("handlers/replication", "replay.")) == set(STEPS)


def test_a_replica_that_is_killed_several_times_equals_its_source(
    written: Written,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    tmp_path: Path,
) -> None:
    replay = KilledReplay.of(written, source, target, tmp_path)
    steps = sorted(random.sample(STEPS, KILLS), key=STEPS.index)
    # Commits are proved in batches, so a step may be passed while another one is waited for.
    assert [step for step in steps if replay.run(f"{step}:1")], steps
    assert not replay.run()
    assert replay.differences() == [], steps
    for table, query in QUERIES.items():
        ours, theirs = query.format(db=written.db), query.format(db=replay.target_db)
        assert source_sql.rows(ours) == target_sql.rows(theirs), (table, steps)
