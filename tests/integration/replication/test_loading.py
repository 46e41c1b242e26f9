"""Loads of single tables on two real clusters, with writers that interfere."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.demo.compare import Side, compare_databases
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.loading.table.load import load_table
from handlers.replication.loading.table.target_table import LOAD
from handlers.replication.loading.table.tools import LoadSettings
from handlers.replication.target.objects import ACCURATE
from handlers.structs.objects import Database
from handlers.structs.statistics import ColumnStatisticsObj
from state.errors import Interrupted, NotFound, TransactionsOpen
from tests.builders.replication.loads import RecordedProgress, load_all, load_tools, waiting_load
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, PLAIN, QUERIES, Written, create_source


@dataclass(frozen=True)
class Kinds:
    """A source database with tables of the kinds that the small workload lacks."""

    db: str
    queries: dict[str, str]


@pytest.fixture(scope="module")
def kinds(source: ClusterEndpoints) -> Kinds:
    db = f"kinds_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql:
        create_source(sql, db)
        sql.run(f"create table {db}.pk (id int, primary key (id) disable novalidate) {ACID}")
        sql.run(
            f"create table {db}.fk (id int, p int not null disable, "
            f"constraint fk_{db} foreign key (p) references {db}.pk(id) disable novalidate) {ACID}"
        )
        insert_only = "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
        sql.run(f"create table {db}.lines (id int) stored as textfile {insert_only}")
        sql.run(f"create external table {db}.ext (id int) stored as textfile")
        sql.run(f"create table {db}.parts (id int) partitioned by (dt string) {PLAIN}")
        sql.run(f"insert into {db}.pk values (1), (2)")
        sql.run(f"insert into {db}.fk values (1, 2)")
        sql.run(f"insert into {db}.lines values (1)")
        sql.run(f"insert overwrite table {db}.lines select id + 10 from {db}.pk")
        sql.run(f"insert into {db}.ext values (1), (2)")
        sql.run(f"insert into {db}.parts partition (dt) select id, concat('p', id) from {db}.pk")
        sql.run(f"create view {db}.seen as select id from {db}.pk where id > 1")
    names = ("pk", "fk", "lines", "ext", "parts", "seen")
    return Kinds(db, {name: f"select * from {{db}}.{name} order by id" for name in names})


Build = Callable[[str], Replica]


@pytest.fixture
def build(source: ClusterEndpoints, target: ClusterEndpoints) -> Iterator[Build]:
    """Return a function that builds a replica of a database, whose target database exists and is empty."""
    built: list[Replica] = []

    def make(db: str) -> Replica:
        roots = [source.warehouse, source.external, source.cmroot]
        target_db = f"{db}_{uuid.uuid4().hex[:6]}"
        replica = build_replica(
            source.metastore, target.metastore, db=db, target_db=target_db, roots=roots, start=False
        )
        replica.target.create_database(Database(name=target_db))
        built.append(replica)
        return replica

    yield make
    for replica in built:
        replica.projection.close()


def differences(replica: Replica, sql: tuple[Session, Session], queries: dict[str, str]) -> list[str]:
    ours = Side(replica.source, sql[0], replica.policy.source_db)
    theirs = Side(replica.target, sql[1], replica.policy.target_db)
    return compare_databases(ours, theirs, queries).list_differences()


def test_loaded_tables_equal_their_source_in_rows_write_ids_and_statistics(
    build: Build, written: Written, source_sql: Session, target_sql: Session
) -> None:
    replica = build(written.db)
    loaded = load_all(replica)
    assert differences(replica, (source_sql, target_sql), QUERIES) == []
    assert loaded["bought"].write_id == replica.source.highest_write_id(written.db, "bought")
    assert loaded["plain"].write_id == 0


def test_tables_of_every_kind_are_loaded_with_their_constraints(
    build: Build, kinds: Kinds, source_sql: Session, target_sql: Session
) -> None:
    replica = build(kinds.db)
    load_all(replica)
    assert differences(replica, (source_sql, target_sql), kinds.queries) == []
    for table in ("pk", "fk"):
        ours = replica.source.constraint_names(kinds.db, table)
        assert replica.target.constraint_names(replica.policy.target_db, table) == ours
    assert LOAD not in (replica.target.get_table(replica.policy.target_db, "pk").parameters or {})


def test_outdated_statistics_are_loaded_as_outdated(build: Build, source_sql: Session) -> None:
    """A metastore returns them again after a truncation, which is replayed as well."""
    db = f"outdated_{uuid.uuid4().hex[:8]}"
    create_source(source_sql, db)
    for name, partitioned in (("orders", ""), ("visits", " partitioned by (dt string)")):
        partition = " partition (dt='a')" if partitioned else ""
        source_sql.run(f"create table {db}.{name} (id int, item string){partitioned} {ACID}")
        source_sql.run(f"insert into {db}.{name}{partition} values (1,'x'),(2,'y')")
    replica = build(db)
    drop_marks(replica.source, db)
    load_all(replica)
    for metastore, name in ((replica.source, db), (replica.target, replica.policy.target_db)):
        for item in (metastore.get_table(name, "orders"), metastore.get_partition(name, "visits", ["a"])):
            assert ACCURATE not in (item.parameters or {}), name
    sides = ((replica.source, db), (replica.target, replica.policy.target_db))
    for read in (read_of_table, read_of_partition):
        ours, theirs = (read(metastore, name) for metastore, name in sides)
        assert [each.colName for each in ours] == ["id", "item"]
        assert theirs == ours


def read_of_table(metastore: Metastore, db: str) -> list[ColumnStatisticsObj]:
    return sort_columns(metastore.table_statistics(db, "orders", ["id", "item"]))


def read_of_partition(metastore: Metastore, db: str) -> list[ColumnStatisticsObj]:
    return sort_columns(
        metastore.partition_statistics(db, "visits", ["dt=a"], ["id", "item"]).get("dt=a", [])
    )


def sort_columns(statistics: list[ColumnStatisticsObj]) -> list[ColumnStatisticsObj]:
    return sorted(statistics, key=lambda each: each.colName)


def drop_marks(source: Metastore, db: str) -> None:
    """Remove the marks of accurate statistics and nothing else, which a client may do outside of a
    transaction."""
    table, partition = source.get_table(db, "orders"), source.get_partition(db, "visits", ["a"])
    for item in (table, partition):
        item.parameters = {key: value for key, value in (item.parameters or {}).items() if key != ACCURATE}
    source.alter_table(db, "orders", table)
    source.alter_partitions(db, "visits", [partition])


def test_a_stopped_load_continues_with_its_table_and_its_verified_files(build: Build, kinds: Kinds) -> None:
    replica = build(kinds.db)
    tools, load = load_tools(replica), waiting_load("parts")

    class Stopping(RecordedProgress):
        def copied(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
            tools.stopping.set()

    with pytest.raises(Interrupted):
        load_table(load, tools, Stopping())
    before = replica.target.get_table(replica.policy.target_db, "parts")
    assert (before.parameters or {})[LOAD] == load.load_id
    copied = times_of_files(replica, "parts")
    assert copied
    tools.stopping.clear()
    assert load_table(load, tools).files == 2
    after = replica.target.get_table(replica.policy.target_db, "parts")
    assert after.id == before.id
    assert copied.items() <= times_of_files(replica, "parts").items()


def test_a_new_load_replaces_a_table_of_the_same_name(
    build: Build, kinds: Kinds, source_sql: Session, target_sql: Session
) -> None:
    replica = build(kinds.db)
    db = replica.policy.target_db
    target_sql.run(f"create table {db}.pk (stranger string) {PLAIN}")
    target_sql.run(f"insert into {db}.pk values ('x')")
    load_table(waiting_load("pk"), load_tools(replica))
    load_table(waiting_load("pk"), load_tools(replica))
    lines = differences(replica, (source_sql, target_sql), {"pk": kinds.queries["pk"]})
    assert [line for line in lines if line.startswith("pk")] == []


def times_of_files(replica: Replica, table: str) -> dict[str, int]:
    root = replica.target.get_table(replica.policy.target_db, table).sd.location or ""
    return {
        str(path): path.stat().st_mtime_ns for path in Path(urlsplit(root).path).rglob("*") if path.is_file()
    }


@pytest.fixture
def writer(source: ClusterEndpoints) -> Iterator[WritingMetastore]:
    with closing(WritingMetastore([source.metastore])) as metastore:
        yield metastore


@pytest.fixture
def changing(database: str, source_sql: Session, build: Build) -> Replica:
    """A replica of a database with two transactional tables of two rows each; ``t`` also has an aborted write
    id, 2."""
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.t (id int) {ACID}")
    source_sql.run(f"create table {database}.other (id int) {ACID}")
    source_sql.run(f"insert into {database}.t values (1), (2)")
    return build(database)


def test_a_load_waits_for_open_write_ids_of_its_table_and_for_no_others(
    changing: Replica, writer: WritingMetastore, target_sql: Session
) -> None:
    db = changing.policy.source_db
    awaited, _ = writer.open_write(db, "t")
    stranger, _ = writer.open_write(db, "other")
    later: list[int] = []

    class Ending(RecordedProgress):
        def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
            super().waiting(table, txn_ids)
            if txn_ids:
                later.append(writer.open_write(db, "t")[0])
                writer.commit_txn(awaited)

    progress = Ending()
    loaded = load_table(waiting_load("t"), load_tools(changing), progress)
    assert progress.waited_for == [awaited]
    assert loaded.write_id == 2
    for txn_id in (*later, stranger):
        writer.commit_txn(txn_id)
    assert target_sql.rows(f"select id from {changing.policy.target_db}.t order by id") == [("1",), ("2",)]


def test_a_load_names_the_transactions_that_do_not_end_or_aborts_them_if_it_may(
    changing: Replica, writer: WritingMetastore
) -> None:
    db = changing.policy.source_db
    holder, _ = writer.open_write(db, "t")
    stranger, _ = writer.open_write(db, "other")
    with pytest.raises(TransactionsOpen) as caught:
        load_table(waiting_load("t"), load_tools(changing, LoadSettings(0, poll_s=0)))
    assert caught.value.context["transactions"] == [holder]
    settings = LoadSettings(0, abort_open_transactions=True, poll_s=0)
    assert load_table(waiting_load("t"), load_tools(changing, settings)).write_id == 2
    writer.commit_txn(stranger)


def test_rows_above_aborted_write_ids_are_visible_at_once(
    changing: Replica, writer: WritingMetastore, source_sql: Session, target_sql: Session
) -> None:
    """Hive's own bootstrap hides them: it takes an aborted id for the high-water mark (hive-replication.md
    §0c.3)."""
    db, target_db = changing.policy.source_db, changing.policy.target_db
    for _ in range(2):
        writer.abort_txn(writer.open_write(db, "t")[0])
    source_sql.run(f"insert into {db}.t values (3)")
    assert changing.source.valid_write_ids([f"{db}.t"])[0].aborted == (2, 3)
    load_table(waiting_load("t"), load_tools(changing))
    assert target_sql.rows(f"select count(*), max(id) from {target_db}.t") == [("3", "3")]
    assert changing.target.valid_write_ids([f"{target_db}.t"])[0].high_water_mark == 4


def test_a_table_with_only_invalid_writes_gets_all_of_its_write_ids(
    changing: Replica, writer: WritingMetastore
) -> None:
    """Hive shortens the list of such a table to its lowest write id."""
    db = changing.policy.source_db
    first, second, third = (writer.open_write(db, "other")[0] for _ in range(3))
    writer.abort_txn(first)
    writer.abort_txn(third)

    class Ending(RecordedProgress):
        def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
            super().waiting(table, txn_ids)
            if txn_ids:
                writer.abort_txn(second)

    progress = Ending()
    assert load_table(waiting_load("other"), load_tools(changing), progress).write_id == 3
    assert progress.waited_for == [second]
    assert changing.target.highest_write_id(changing.policy.target_db, "other") == 3


class Interfering(RecordedProgress):
    """Runs a statement at the source once, when the files of the table are listed but not copied."""

    def __init__(self, statement: Callable[[], object]) -> None:
        super().__init__()
        self._statement: Callable[[], object] | None = statement

    def listed(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
        if self._statement is not None:
            statement, self._statement = self._statement, None
            statement()


def test_a_table_that_is_dropped_during_its_load_does_not_stay_on_the_target(
    changing: Replica, source_sql: Session
) -> None:
    progress = Interfering(lambda: source_sql.run(f"drop table {changing.policy.source_db}.t"))
    assert not load_table(waiting_load("t"), load_tools(changing), progress).exists
    assert progress.restarts
    with pytest.raises(NotFound):
        changing.target.get_table(changing.policy.target_db, "t")


def test_a_table_that_is_created_again_during_its_load_has_only_its_new_rows(
    changing: Replica, source_sql: Session, target_sql: Session
) -> None:
    db = changing.policy.source_db

    def create_again() -> None:
        source_sql.run(f"drop table {db}.t")
        source_sql.run(f"create table {db}.t (id int) {ACID}")
        source_sql.run(f"insert into {db}.t values (7)")

    progress = Interfering(create_again)
    loaded = load_table(waiting_load("t"), load_tools(changing), progress)
    assert progress.restarts
    assert loaded.write_id == 1
    assert target_sql.rows(f"select id from {changing.policy.target_db}.t") == [("7",)]


def test_rows_written_during_a_load_are_not_in_it(
    changing: Replica, source_sql: Session, target_sql: Session
) -> None:
    db = changing.policy.source_db
    progress = Interfering(lambda: source_sql.run(f"insert into {db}.t values (3)"))
    loaded = load_table(waiting_load("t"), load_tools(changing), progress)
    assert (loaded.write_id, progress.restarts) == (1, [])
    assert target_sql.rows(f"select count(*) from {changing.policy.target_db}.t") == [("2",)]
