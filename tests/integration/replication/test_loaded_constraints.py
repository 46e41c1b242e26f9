"""Constraints of tables that are loaded under another name while they are still followed under the former
one."""

from __future__ import annotations

from dev.stack.hive.sql_session import Session
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import check_equal


def test_a_loaded_table_keeps_its_constraints_when_the_one_of_its_former_name_is_dropped(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    """Hive removes the constraints of all tables with a name that one of the dropped table has."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.keyed (id int, a int, b int) {ACID}")
    source_sql.run(f"alter table {db}.keyed add constraint key_1 primary key (a, b) disable novalidate")
    source_sql.run(f"alter table {db}.keyed add constraint key_2 unique (id) disable novalidate")
    source_sql.run(f"create table {db}.other (id int) {ACID}")
    replica.follow()
    replica.projection.loads.request(["other"], "in-scope")
    for before, after in (("keyed", "swapped"), ("other", "keyed"), ("swapped", "other")):
        source_sql.run(f"alter table {db}.{before} rename to {db}.{after}")
    loads = SteppedLoads(replica)
    loads.finish()
    replica.follow()
    loads.finish()
    replica.follow()
    assert replica.target.constraint_names(replica.policy.target_db, "other") == {"key_1", "key_2"}
    check_equal(replica, source_sql, target_sql)
