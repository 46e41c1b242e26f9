"""A short history with every kind of change, written once on a source and replayed many times."""

from __future__ import annotations

from dataclasses import dataclass

from dev.demo.workload import ROLL_BACK_AFTER_WRITING
from dev.fixtures.hive_tables import ACID as ACID_PARAMETERS
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore


ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = (
    "stored as textfile tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
)
PLAIN = "stored as orc tblproperties ('transactional'='false')"

QUERIES = {
    "bought": "select * from {db}.bought order by id",
    "orders": "select * from {db}.orders order by id",
    "visits": "select * from {db}.visits order by dt, id",
    "plain": "select * from {db}.plain order by id",
}


@dataclass(frozen=True)
class Written:
    """A source database and its part of the log."""

    db: str
    before: int
    """The newest event before the database was created."""
    last: int
    """The newest event after the workload."""


def create_source(sql: Session, db: str) -> None:
    """Create a database whose deleted files the change manager keeps, marked as by a bootstrap."""
    sql.run(f"create database {db} with dbproperties ('repl.source.for'='tests')")


def write_all(sql: Session, source: Metastore, db: str) -> Written:
    """Write the whole workload into ``db``, which does not exist yet."""
    before = source.current_event_id()
    create_source(sql, db)
    sql.run(f"create table {db}.orders (id int, item string) {ACID}")
    sql.run(f"create table {db}.visits (id int, page string) partitioned by (dt string) {ACID}")
    sql.run(f"insert into {db}.orders values (1,'pen'),(2,'ink')")
    sql.run(f"insert into {db}.visits partition (dt='a') values (1,'/a')")
    sql.run(f"update {db}.orders set item = 'INK' where id = 2")
    sql.run(
        f"from {db}.orders s insert into {db}.visits partition (dt='b') select s.id, s.item where s.id = 1 "
        f"insert into {db}.visits partition (dt='c') select s.id, s.item where s.id = 2"
    )
    roll_back(sql, f"insert into {db}.orders values (666,'never')")
    sql.run(f"insert overwrite table {db}.visits partition (dt='a') values (3,'/over')")
    sql.run(f"alter table {db}.visits partition (dt='b') rename to partition (dt='d')")
    sql.run(f"alter table {db}.orders rename to {db}.bought")
    sql.run(f"create table {db}.orders (id int, item string) {ACID}")
    sql.run(f"insert into {db}.orders values (7,'new')")
    change_partitions(sql, source, db)
    change_independent_tables(sql, source, db)
    sql.run(f"create table {db}.plain (id int) {PLAIN}")
    sql.run(f"insert into {db}.plain values (1)")
    sql.run(f"insert overwrite table {db}.plain values (2)")
    sql.run(f"insert into {db}.plain values (3)")
    sql.run(f"create table {db}.gone (id int) {ACID}")
    sql.run(f"insert into {db}.gone values (1)")
    sql.run(f"drop table {db}.gone")
    return Written(db, before, source.current_event_id())


def change_partitions(sql: Session, source: Metastore, db: str) -> None:
    """Add, alter and drop partitions by calls that name one each, with a commit of another table in between:
    replay joins the events."""
    table = source.get_table(db, "visits")
    partitions = [a_partition(table, value) for value in ("p", "q", "r")]
    for partition in partitions[:2]:
        source.add_partitions(db, "visits", [partition])
    sql.run(f"insert into {db}.bought values (9,'between')")
    source.add_partitions(db, "visits", partitions[2:])
    for value in ("p", "q", "r"):
        partition = source.get_partition(db, "visits", [value])
        partition.parameters = {**(partition.parameters or {}), "note": value}
        source.alter_partitions(db, "visits", [partition])
    for value in ("p", "q"):
        source.drop_partition(db, "visits", [value])


def change_independent_tables(sql: Session, source: Metastore, db: str) -> None:
    """Change tables that have nothing to do with each other, with a commit of another in between: replay
    makes some of the changes at the same time."""
    for name in ("left", "right", "brief"):
        source.create_table(a_table(db, name, partition_keys=["dt"], parameters=ACID_PARAMETERS))
    for name in ("left", "right"):
        table = source.get_table(db, name)
        source.add_partitions(db, name, [a_partition(table, value) for value in ("u", "v")])
    sql.run(f"insert into {db}.bought values (10,'beside')")
    for name in ("left", "right"):
        table = source.get_table(db, name)
        table.parameters = {**(table.parameters or {}), "note": name}
        source.alter_table(db, name, table)
        source.drop_partition(db, name, ["u"])
    source.drop_table(db, "brief")
    source.create_table(a_table(db, "brief", parameters=ACID_PARAMETERS))


def roll_back(sql: Session, statement: str) -> None:
    """Run ``statement`` so that its transaction is aborted after its files are written; Hive reports
    success."""
    for name, during, _ in ROLL_BACK_AFTER_WRITING:
        sql.run(f"set {name}={during}")
    try:
        sql.run(statement)
    finally:
        for name, _, after in ROLL_BACK_AFTER_WRITING:
            sql.run(f"set {name}={after}")


def remembers_abort(metastore: Metastore, db: str, table: str) -> bool:
    """Whether readers of a table still get an aborted write id from Hive, which forgets all but the newest
    transaction."""
    return bool(metastore.valid_write_ids([f"{db}.{table}"])[0].aborted)
