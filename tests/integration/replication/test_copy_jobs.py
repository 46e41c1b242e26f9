"""Bootstraps and cycles of external tables whose files a Spark job copies, on real metastores."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from tests.builders.replication.lake import open_lake
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import QUERIES, Written
from tests.builders.replication.spark_jobs import spark_jobs


pytestmark = pytest.mark.long


def test_a_bootstrap_whose_files_spark_copies_ends_equal_to_its_source(
    written: Written,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
) -> None:
    roots = [source.warehouse, source.external, source.cmroot]
    jobs = spark_jobs(roots)
    replica = build_replica(
        source.metastore, target.metastore, db=written.db, target_db=f"{written.db}_j", roots=roots, jobs=jobs
    )
    try:
        replica.projection.open()
        assert replica.quarantined() == {}
        assert replica.differences(files=False) == []
        for table, query in QUERIES.items():
            ours, theirs = query.format(db=written.db), query.format(db=replica.policy.target_db)
            assert source_sql.rows(ours) == target_sql.rows(theirs), table
        assert jobs.counters.files > 0
        assert jobs.counters.failed == 0
        assert replica.context.copies.counters().files == 0
    finally:
        replica.projection.close()


def test_spark_copies_the_files_of_a_cycle_and_the_next_cycle_finds_nothing_to_do(
    source: ClusterEndpoints, target: ClusterEndpoints, tmp_path: Path
) -> None:
    jobs = spark_jobs([source.warehouse, source.external, source.cmroot])
    with open_lake(source, target, tmp_path, jobs=jobs) as lake:
        assert lake.copies.run().is_complete
        lake.put("flat/b.txt", "3,nib")
        lake.put("parts/dt=a/deep/two.txt", "11")
        before = jobs.counters
        second = lake.copies.run()
        assert second.is_complete, second.problems
        assert (second.counts.copied, jobs.counters.files - before.files, jobs.counters.failed) == (2, 2, 0)
        assert lake.rows("select id, item from {db}.flat") == [("1", "pen"), ("2", "ink"), ("3", "nib")]
        assert lake.copies.run().counts.copied == 0
        assert jobs.counters.files - before.files == 2, "there was no third job"
