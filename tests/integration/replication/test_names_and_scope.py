"""Which tables a policy follows when tables are created, dropped and renamed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from dev.fixtures.hive_tables import a_table
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Database
from state.errors import TargetDiverged
from state.store.memory import MemoryStore
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source, roll_back


@dataclass(frozen=True)
class Shop:
    """A source database with tables that move into and out of patterns, and its part of the log."""

    db: str
    before: int
    last: int


@pytest.fixture(scope="module")
def shop(source: ClusterEndpoints) -> Shop:
    db = f"shop_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql, closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, db)
        for table in ("fact_a", "fact_b", "tmp_in"):
            sql.run(f"create table {db}.{table} (id int) {ACID}")
            sql.run(f"insert into {db}.{table} values (1)")
        sql.run(f"alter table {db}.fact_b rename to {db}.tmp_b")
        sql.run(f"alter table {db}.tmp_in rename to {db}.fact_in")
        sql.run(f"insert into {db}.fact_in values (2)")
        sql.run(f"drop table {db}.fact_a")
        sql.run(f"create table {db}.fact_a (id int, note string) {ACID}")
        sql.run(f"insert into {db}.fact_a values (3,'anew')")
        roll_back(sql, f"insert into {db}.fact_a values (4,'never')")
        return Shop(db, before, metastore.current_event_id())


Follow = Callable[..., Replica]


@pytest.fixture
def follow(source: ClusterEndpoints, target: ClusterEndpoints, shop: Shop) -> Iterator[Follow]:
    """Replicas of the shop that have applied its whole log."""
    made: list[Replica] = []

    def build(**policy: object) -> Replica:
        replica = build_replica(
            source.metastore,
            target.metastore,
            db=shop.db,
            target_db=f"{shop.db}_{uuid.uuid4().hex[:6]}",
            roots=[source.warehouse, source.external, source.cmroot],
            start=shop.before,
            **policy,  # type: ignore[arg-type]  # fields of Policy
        )
        made.append(replica)
        replica.follow(upto=shop.last)
        return replica

    yield build
    for replica in made:
        replica.projection.close()


def tables(replica: Replica) -> list[str]:
    return sorted(replica.target.table_names(replica.policy.target_db))


def test_renamed_tables_are_followed_and_their_old_names_can_be_reused(follow: Follow) -> None:
    everything = follow()
    assert everything.quarantined() == {}
    assert tables(everything) == ["fact_a", "fact_in", "tmp_b"]
    assert [line for line in everything.differences() if "COLUMN_STATS_ACCURATE" not in line] == []


def test_statistics_of_rolled_back_rows_are_marked_as_inaccurate(follow: Follow, target_sql: Session) -> None:
    """Hive logs statistics before the abort, and a target that forgot the write id would answer count(*) from
    them."""
    replica = follow()
    table = replica.target.get_table(replica.policy.target_db, "fact_a")
    assert "COLUMN_STATS_ACCURATE" not in (table.parameters or {})
    rows = f"select count(*) from {replica.policy.target_db}.fact_a"
    assert target_sql.rows(rows) == [("1",)]


def waiting(replica: Replica) -> list[str]:
    return [load.table for load in replica.context.tables.loads.waiting()]


def test_a_rename_moves_a_table_out_of_a_policy_or_into_it(follow: Follow) -> None:
    facts = follow(include=("fact_*",))
    assert tables(facts) == ["fact_a"], "fact_b left; fact_in came with rows that no event contains"
    assert waiting(facts) == ["fact_in"]
    assert facts.quarantined() == {}


def test_two_policies_with_different_tables_follow_one_source(follow: Follow) -> None:
    facts, others = follow(include=("fact_*",)), follow(exclude=("fact_*",))
    assert tables(facts) == ["fact_a"]
    assert tables(others) == [], "tmp_in left, and tmp_b came from outside"
    assert waiting(others) == ["tmp_b"]


def test_a_dropped_database_is_dropped_with_all_its_tables_and_may_be_created_again(
    source: ClusterEndpoints, target: ClusterEndpoints, database: str
) -> None:
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        metastore.create_database(Database(name=database))
        metastore.create_table(a_table(database, "old"))
        metastore.drop_database(database, cascade=True)
        dropped = metastore.current_event_id()
        metastore.create_database(Database(name=database, description="second"))
        metastore.create_table(a_table(database, "new"))
        last = metastore.current_event_id()
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=database, roots=roots, start=before)
    with closing(replica.projection):
        replica.follow(upto=dropped)
        assert replica.policy.target_db not in replica.target.database_names()
        replica.follow(upto=last)
        assert tables(replica) == ["new"]
        assert replica.target.get_database(replica.policy.target_db).description == "second"


@pytest.fixture
def metastores(source: ClusterEndpoints, target: ClusterEndpoints) -> Iterator[tuple[Metastore, Metastore]]:
    with (
        closing(Metastore([source.metastore])) as ours,
        closing(Metastore([target.metastore])) as theirs,
    ):
        yield ours, theirs


def test_a_target_database_with_tables_is_refused(
    metastores: tuple[Metastore, Metastore], database: str
) -> None:
    source, target = metastores
    target.create_database(Database(name=database))
    target.create_table(a_table(database, "stranger"))
    policy = Policy("p", f"{database}_nowhere", database)
    with pytest.raises(TargetDiverged, match="not empty"):
        begin_bootstrap(source=source, target=target, policy=policy, store=MemoryStore())


def test_a_second_bootstrap_changes_nothing(metastores: tuple[Metastore, Metastore], database: str) -> None:
    source, target = metastores
    source.create_database(Database(name=database))
    policy, store = Policy("p", database, f"{database}_r"), MemoryStore()
    first = begin_bootstrap(source=source, target=target, policy=policy, store=store)
    again = begin_bootstrap(source=source, target=target, policy=policy, store=store)
    assert (again.event_id, again.repeated) == (first.event_id, True)


def test_an_id_left_by_an_earlier_replica_does_not_hide_the_events_of_a_new_one(
    source: ClusterEndpoints, target: ClusterEndpoints, database: str
) -> None:
    with closing(Metastore([target.metastore])) as theirs:
        theirs.create_database(Database(name=f"{database}_r", parameters={"repl.last.id": str(2**40)}))
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=database, roots=roots)
    with closing(replica.projection):
        replica.source.create_database(Database(name=database))
        replica.source.create_table(a_table(database, "first"))
        replica.follow()
        assert tables(replica) == ["first"]
