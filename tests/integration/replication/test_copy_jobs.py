"""Bootstraps and cycles of external tables whose files a Spark job copies, on real metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import QUERIES, Written
from tests.builders.replication.spark_jobs import spark_jobs


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.hive.sql_session import Session


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
