"""One replica, killed once at each failpoint of replay. The full matrix is in
``tests/crash/test_replay_crash.py``."""

from __future__ import annotations

from pathlib import Path

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from tests.builders.replication.failpoint_names import find_failpoints
from tests.builders.replication.replay_kills import STEPS, KilledReplay
from tests.builders.replication.small_workload import QUERIES, Written


def test_every_failpoint_of_replay_is_tested() -> None:
    assert set(find_failpoints("handlers/replication", "replay.")) == set(STEPS)


def test_a_replica_killed_once_at_each_failpoint_equals_its_source(
    written: Written,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    tmp_path: Path,
) -> None:
    left = list(STEPS)
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        replay = KilledReplay.of(written, source, target, directory)
        # Commits are proved in batches, so a step may be passed while another one is waited for. A second
        # replica is killed there.
        left = [step for step in left if not replay.run(f"{step}:1")]
        assert not replay.run()
        assert replay.differences() == []
        for table, query in QUERIES.items():
            ours, theirs = query.format(db=written.db), query.format(db=replay.target_db)
            assert source_sql.rows(ours) == target_sql.rows(theirs), table
        if not left:
            break
    assert left == []
