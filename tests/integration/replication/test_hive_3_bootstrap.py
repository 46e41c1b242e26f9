"""A bootstrap of transactional tables of Hive 3.1 while writers and the compactor go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.loading.bootstrap_run import BootstrapOptions
from handlers.replication.loading.table.tools import LoadSettings
from handlers.replication.verification.findings import Outcome
from handlers.structs.transactions import CompactionType
from tests.builders.components.hive_3 import compact
from tests.builders.replication.hive_3_source import (
    ACID,
    INSERT_ONLY,
    Hive3Source,
    RelayedReplica,
    open_hive_3_source,
)
from tests.builders.replication.loads import Interleaved
from tests.builders.replication.small_workload import roll_back
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import verify


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

FULL_ACID = ("t", "p", "b", "sums", "later")
TABLES = (*FULL_ACID, "lines")


@pytest.fixture
def old(hive_3: HiveCluster, target: ClusterEndpoints, database: str) -> Iterator[Hive3Source]:
    """Tables with updates, deletions, compactions, and aborted writes, one of which a base is named after."""
    with open_hive_3_source(hive_3, target, database) as source:
        source.run(
            f"create table {{db}}.t (k int, v string) {ACID}",
            f"create table {{db}}.p (k int, v string) partitioned by (dt string) {ACID}",
            "create table {db}.b (k int, v string) partitioned by (dt string) clustered by (k) into 2 "
            f"buckets {ACID}",
            f"create table {{db}}.lines (k int) partitioned by (dt string) {INSERT_ONLY}",
            "insert into {db}.t values (1, 'a'), (2, 'b'), (3, 'c')",
            "delete from {db}.t where k = 3",
        )
        for table in ("p", "b"):
            source.run(
                f"insert into {{db}}.{table} partition (dt) values (1, 'a', 'a'), (2, 'b', 'b'), "
                "(3, 'c', 'c')",
                f"update {{db}}.{table} set v = 'u' where k = 1",
            )
        source.run("insert into {db}.lines partition (dt) values (1, 'a'), (2, 'b')")
        roll_back(source.sql, f"insert into {database}.t values (666, 'never')")
        compact(source.metastore, database, "t")
        compact(source.metastore, database, "b", CompactionType.MINOR, partition_name="dt=a")
        yield source


def list_writes(old: Hive3Source) -> list[Callable[[], object]]:
    """Return what happens during the bootstrap, step by step."""
    return [
        partial(old.run, "insert into {db}.t values (10, 'ten')"),
        partial(old.run, "update {db}.t set v = 'TEN' where k = 10"),
        partial(old.run, "insert into {db}.p partition (dt) values (5, 'e', 'e'), (6, 'a', 'a')"),
        partial(roll_back, old.sql, f"insert into {old.db}.p partition (dt='a') values (666, 'never')"),
        partial(compact, old.metastore, old.db, "t"),
        partial(old.run, "delete from {db}.b where k = 2", "insert into {db}.lines values (3, 'a')"),
        partial(old.run, "insert overwrite table {db}.p partition (dt='b') values (7, 'over')"),
        partial(compact, old.metastore, old.db, "p", partition_name="dt=a"),
        partial(old.run, "truncate table {db}.b partition (dt = 'c')"),
        partial(old.run, "alter table {db}.p drop partition (dt = 'c')"),
        partial(
            old.run, f"create table {{db}}.sums {ACID} as select v, count(*) as n from {{db}}.t group by v"
        ),
        partial(old.run, "insert overwrite table {db}.lines partition (dt = 'b') values (9)"),
        partial(
            old.run,
            f"create table {{db}}.late (k int) {ACID}",
            "insert into {db}.late values (1)",
            "alter table {db}.late rename to {db}.later",
        ),
        partial(
            old.run,
            "merge into {db}.t using (select 1 as k union all select 77 as k) s on t.k = s.k "
            "when matched then update set v = 'merged' when not matched then insert values (s.k, 'new')",
        ),
    ]


def test_a_bootstrap_with_writers_and_compactions_ends_equal_to_its_source(
    old: Hive3Source, target_sql: Session
) -> None:
    writers = Interleaved(list_writes(old))
    replica = old.begin(BootstrapOptions(LoadSettings(poll_s=0.05), progress=writers))
    writers.run_next()
    live = RelayedReplica(old, replica)
    writers.run_rest()
    old.relay()
    live.follow()
    SteppedLoads(replica, old.events).finish()
    assert [each.reason for each in replica.context.tables.quarantine.entries()] == []
    found = {name: (each.outcome, each.differences) for name, each in verify(replica, *TABLES).items()}
    assert found == dict.fromkeys(TABLES, (Outcome.EQUAL, ()))
    query = "select * from {}.lines"
    theirs = target_sql.rows(query.format(replica.policy.target_db))
    assert sorted(theirs) == sorted(old.sql.rows(query.format(old.db)))
    old.assert_equal(replica, target_sql, *FULL_ACID)
