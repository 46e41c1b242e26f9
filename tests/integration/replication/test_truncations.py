"""Truncations of transactional tables, which add an empty base and leave the files to the readers of older
snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.stack.hive.sql_session import Session
from handlers.events import Event, PartitionsAltered, TableAltered
from handlers.files.paths import parse_location
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import (
    ACID,
    INSERT_ONLY,
    create_source,
    remembers_abort,
    roll_back,
)
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import check_equal


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "kind"),
    [("(id int, dt string)", INSERT_ONLY), ("(id int) partitioned by (dt string)", ACID)],
    ids=["insert_only", "partitioned"],
)
def test_a_truncation_that_is_rolled_back_takes_effect_on_both_sides_when_hive_forgets_the_abort(
    source_sql: Session, target_sql: Session, replica: Replica, columns: str, kind: str
) -> None:
    """Hive forgets it within seconds, because it does not record a truncation among the writes of its
    transaction."""
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t {columns} {kind}")
    source_sql.run(f"insert into {db}.t values (1, 'a'), (2, 'b')")
    roll_back(source_sql, f"truncate table {db}.t")
    last = max(event.event_id for event in replica.events(0) if is_truncation(event, db))
    replica.follow(upto=last)
    assert replica.target.valid_write_ids([f"{target_db}.t"])[0].open == (2,)
    root = Path(parse_location(replica.context.table_cache.location("t")).path)
    assert sorted({each.name for each in root.rglob("*_000*") if each.is_dir()}) == [
        "base_0000002",
        "delta_0000001_0000001_0000",
    ]
    source_sql.run(f"create table {db}.newer (id int) {ACID}")
    source_sql.run(f"insert into {db}.newer values (1)")  # Hive forgets all but the newest transaction
    replica.follow()
    wait_until(lambda: not remembers_abort(replica.source, db, "t"))
    wait_until(lambda: not remembers_abort(replica.target, target_db, "t"))
    check_equal(replica, source_sql, target_sql)
    assert target_sql.rows(f"select * from {target_db}.t") == []
    source_sql.run(f"insert into {db}.t values (3, 'a')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


def test_a_truncation_of_impala_which_hive_ignores_is_no_difference(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    """Impala writes ``base_3/_empty`` and logs no write event. Hive finds no file in that base and still
    reads the rows."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) {ACID}")
    for number in (1, 2):
        source_sql.run(f"insert into {db}.t values ({number})")
    location = replica.source.get_table(db, "t").sd.location or ""
    base = Path(parse_location(location).path) / "base_0000003"
    base.mkdir()
    (base / "_empty").touch()
    source_sql.run(f"analyze table {db}.t compute statistics for columns")  # under write id 3
    replica.follow()
    assert source_sql.rows(f"select * from {db}.t") == [("1",), ("2",)]
    check_equal(replica, source_sql, target_sql)
    replica.projection.loads.request(["t"], "repair")
    SteppedLoads(replica).finish()
    check_equal(replica, source_sql, target_sql)


def is_truncation(event: Event, db: str) -> bool:
    """Whether an event is a truncation in the database."""
    return isinstance(event, TableAltered | PartitionsAltered) and event.db == db and bool(event.truncate)
