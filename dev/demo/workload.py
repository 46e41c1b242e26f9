"""The workload of the demo: a statement of every kind that a replica must follow, and the writer that runs
them.

The integration tests use the same statements.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of the writer; ``settings`` apply to this step only."""

    title: str
    sql: str
    must_fail: bool = False
    settings: tuple[tuple[str, str, str], ...] = ()
    """Name, value during the step, and value after it."""


ROLL_BACK_AFTER_WRITING: Final = (
    ("hive.in.test", "true", "false"),
    ("hive.test.rollbacktxn", "true", "false"),
)
"""Hive's own test switch: the transaction is aborted after its files were written."""

TABLES: Final = ("orders", "visits", "logonly", "plain", "archive", "tallies")
"""The tables that exist at the end of the workload."""

QUERIES: Final = {
    "orders": "select * from {db}.orders order by id",
    "visits": "select * from {db}.visits order by dt, id",
    "logonly": "select * from {db}.logonly order by id",
    "plain": "select * from {db}.plain order by id",
    "archive": "select * from {db}.archive order by dt, id",
    "tallies": "select * from {db}.tallies order by item",
    "recent": "select * from {db}.recent order by id",
}

ABORTED_TABLE: Final = "orders"
"""The table in which a transaction was aborted after its files were written."""


def steps(db: str) -> tuple[Step, ...]:
    """Return the workload for database ``db``, which must not exist yet."""
    return (
        Step("a database", f"create database {db} with dbproperties ('repl.source.for'='demo')"),
        *_tables(db),
        *_acid_writes(db),
        *_aborts(db),
        *_overwrites(db),
        *_plain_tables(db),
        *_changes(db),
    )


def _tables(db: str) -> tuple[Step, ...]:
    acid = "stored as orc tblproperties ('transactional'='true')"
    return (
        Step("an ACID table", f"create table {db}.orders (id int, item string, qty int) {acid}"),
        Step(
            "a partitioned ACID table",
            f"create table {db}.visits (id int, page string) partitioned by (dt string) {acid}",
        ),
        Step(
            "an insert-only table",
            f"create table {db}.logonly (id int, line string) stored as textfile "
            "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')",
        ),
        Step(
            "a plain table",
            f"create table {db}.plain (id int, v string) stored as orc tblproperties "
            "('transactional'='false')",
        ),
        Step(
            "a partitioned plain table",
            f"create table {db}.archive (id int) partitioned by (dt string) stored as orc "
            "tblproperties ('transactional'='false')",
        ),
        Step("a view", f"create view {db}.recent as select id, item from {db}.orders where id > 2"),
    )


def _acid_writes(db: str) -> tuple[Step, ...]:
    return (
        Step("insert", f"insert into {db}.orders values (1,'pen',10),(2,'ink',20),(3,'cap',30),(4,'box',40)"),
        Step(
            "insert into a partition",
            f"insert into {db}.visits partition (dt='2024-01-01') values (1,'/a'),(2,'/b')",
        ),
        Step(
            "insert into dynamic partitions",
            f"insert into {db}.visits partition (dt) select 10, '/x', '2024-01-02' "
            "union all select 11, '/y', '2024-01-03' union all select 12, '/z', '2024-01-04'",
        ),
        Step("update", f"update {db}.orders set qty = 21 where id = 2"),
        Step("delete", f"delete from {db}.orders where id = 3"),
        Step("update in a partition", f"update {db}.visits set page = '/x2' where id = 10"),
        Step(
            "insert into two static partitions at once",
            f"from {db}.orders s insert into {db}.visits partition (dt='2024-02-01') select s.id, s.item "
            "where s.id = 1 "
            f"insert into {db}.visits partition (dt='2024-02-02') select s.id, s.item where s.id = 2",
        ),
        Step(
            "merge",
            f"merge into {db}.orders t using (select 1 as id, 'PEN' as item union all select 9 as id, 'new' "
            "as item) s on t.id = s.id when matched then update set item = s.item "
            "when not matched then insert values (s.id, s.item, 0)",
        ),
        Step("insert into the insert-only table", f"insert into {db}.logonly values (1,'x')"),
    )


def _aborts(db: str) -> tuple[Step, ...]:
    return (
        Step(
            "an insert that fails",
            f"insert into {db}.orders select id + 100, item, cast(assert_true(id < 0) as int) from "
            f"{db}.orders",
            must_fail=True,
        ),
        Step(
            "an insert that is rolled back after it wrote its files",
            f"insert into {db}.orders values (666,'never',0)",
            settings=ROLL_BACK_AFTER_WRITING,
        ),
    )


def _overwrites(db: str) -> tuple[Step, ...]:
    return (
        Step(
            "overwrite a partition",
            f"insert overwrite table {db}.visits partition (dt='2024-01-03') values (21,'/over')",
        ),
        Step("truncate", f"truncate table {db}.logonly"),
        Step("insert again", f"insert into {db}.logonly values (2,'y'),(3,'z')"),
    )


def _plain_tables(db: str) -> tuple[Step, ...]:
    return (
        Step("insert into a plain table", f"insert into {db}.plain values (1,'one')"),
        Step("insert into it again", f"insert into {db}.plain values (2,'two')"),
        Step("overwrite it", f"insert overwrite table {db}.plain values (3,'three')"),
        Step(
            "insert into plain partitions",
            f"insert into {db}.archive partition (dt) select 1, 'a' union all select 2, 'b'",
        ),
        Step(
            "overwrite a plain partition",
            f"insert overwrite table {db}.archive partition (dt='a') values (11)",
        ),
    )


def _changes(db: str) -> tuple[Step, ...]:
    return (
        Step("drop a partition", f"alter table {db}.visits drop partition (dt='2024-01-04')"),
        Step("add a column", f"alter table {db}.orders add columns (note string)"),
        Step("use it", f"insert into {db}.orders values (5,'map',50,'with note')"),
        Step(
            "rename a partition",
            f"alter table {db}.visits partition (dt='2024-01-01') rename to partition (dt='2023-12-31')",
        ),
        Step(
            "create a table from a query",
            f"create table {db}.sums stored as orc tblproperties ('transactional'='true') as "
            f"select item, sum(qty) as qty from {db}.orders group by item",
        ),
        Step("rename it", f"alter table {db}.sums rename to {db}.tallies"),
        Step("compute statistics", f"analyze table {db}.orders compute statistics for columns"),
        Step(
            "a table that is dropped later",
            f"create table {db}.gone (id int) stored as orc tblproperties ('transactional'='true')",
        ),
        Step("with rows", f"insert into {db}.gone values (1)"),
        Step("dropped", f"drop table {db}.gone"),
    )


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step and its outcome."""

    step: Step
    state: Literal["waiting", "running", "done", "failed"] = "waiting"
    seconds: float = 0.0
    events: int = 0
    error: str = ""


def run_step(session: Session, step: Step) -> StepResult:
    """Run one step. The result is ``failed`` if the step fails although it should succeed, or the reverse."""
    for name, during, _ in step.settings:
        session.run(f"set {name}={during}")
    try:
        result = session.run(step.sql)
        done = StepResult(step, "failed" if step.must_fail else "done", result.seconds, len(result.events))
    except SqlFailed as error:
        done = StepResult(step, "done" if step.must_fail else "failed", error=str(error))
    for name, _, after in step.settings:
        session.run(f"set {name}={after}")
    return done


class Writer:
    """Runs the steps one after another in a thread. Reading ``rows`` is thread-safe."""

    def __init__(self, session: Session, steps: Sequence[Step]) -> None:
        self._session = session
        self.rows = [StepResult(step) for step in steps]
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether every step has run, or one has failed."""
        return not self._thread.is_alive()

    def failed_step(self) -> StepResult | None:
        """Return the step that failed, if any."""
        return next((row for row in self.rows if row.state == "failed"), None)

    def _run(self) -> None:
        for number, row in enumerate(self.rows):
            self.rows[number] = replace(row, state="running")
            self.rows[number] = run_step(self._session, row.step)
            if self.rows[number].state == "failed":
                return
