"""Several policies and sources for one target, and tables that are switched off and on, on real
metastores."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import REPLICATE
from state.errors import TargetDiverged
from state.store.memory import MemoryStore
from tests.builders.replication.external import ExternalCopies
from tests.builders.replication.loads import load_waiting_tables
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.verification import verify


def test_a_table_is_switched_off_by_its_property_and_on_again(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    database: str,
    source_sql: Session,
    target_sql: Session,
) -> None:
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=database, roots=roots)
    with closing(replica.projection):
        create_source(source_sql, database)
        source_sql.run(f"create table {database}.t (id int) {ACID}")
        source_sql.run(f"insert into {database}.t values (1)")
        source_sql.run(f"alter table {database}.t set tblproperties ('{REPLICATE}'='false')")
        source_sql.run(f"insert into {database}.t values (2)")
        replica.follow()
        rows = f"select id from {replica.policy.target_db}.t"
        assert sorted(target_sql.rows(rows)) == [("1",)]
        assert verify(replica, "t")["t"].reason == f"its property {REPLICATE} is false"
        source_sql.run(f"alter table {database}.t set tblproperties ('{REPLICATE}'='true')")
        replica.follow()
        assert load_waiting_tables(replica) == ["t"]
        assert sorted(target_sql.rows(rows)) == [("1",), ("2",)]
        assert verify(replica, "t")["t"].outcome == "equal"
        assert replica.quarantined() == {}


def test_two_sources_replicate_into_one_target_each_into_databases_and_a_base_of_its_own(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    database: str,
    source_sql: Session,
    target_sql: Session,
) -> None:
    """The second source is the target's own cluster, under another database."""
    sides = ((source, source_sql, "one"), (target, target_sql, "two"))
    replicas = []
    for cluster, sql, name in sides:
        db, root = f"{database}_{name}", Path(cluster.external) / database
        replica = build_replica(
            cluster.metastore,
            target.metastore,
            db=db,
            target_db=f"{db}_r",
            roots=[cluster.warehouse, cluster.external, cluster.cmroot],
            external_base=f"file:{target.external}/bases_{database}/{name}",
        )
        replicas.append(replica)
        create_source(sql, db)
        sql.run(f"create external table {db}.ext (id int) location 'file:{root}'")
        (root / "a.txt").write_text(f"{len(replicas)}\n")
        sql.run(f"create table {db}.acid (name string) {ACID}")
    for replica, (_, _, name) in zip(replicas, sides, strict=True):
        replica.follow()
        assert ExternalCopies(replica.context).run().is_complete
        db = replica.policy.target_db
        assert sorted(replica.target.table_names(db)) == ["acid", "ext"]
        assert target_sql.rows(f"select id from {db}.ext") == [("1" if name == "one" else "2",)]
    one, two = replicas
    intruder = Policy("intruder", two.policy.source_db, one.policy.target_db)
    with pytest.raises(TargetDiverged):
        begin_bootstrap(source=two.source, target=one.target, policy=intruder, store=MemoryStore())
    for replica in replicas:
        replica.projection.close()
