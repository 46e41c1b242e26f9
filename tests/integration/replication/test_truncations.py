"""Truncations of transactional tables, which add an empty base and leave the files to the readers of older snapshots.

Without the option of HiveServer2 that makes it do so, a metastore removes the files at once, before the transaction has ended.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from dev.fixtures.writing_client import WritingMetastore
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.replication.small_workload import ACID, INSERT_ONLY, create_source, roll_back
from tests.builders.replication.verification import check_equal


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.hive.sql_session import Session
    from tests.builders.replication.replica import Replica


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY], ids=["acid", "insert_only"])
@pytest.mark.parametrize("columns", ["(id int, dt string)", "(id int) partitioned by (dt string)"])
def test_a_truncation_that_is_rolled_back_is_visible_on_both_sides_only_after_hive_has_forgotten_the_abort(  # noqa: PLR0913 - fixtures
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    replica: Replica,
    columns: str,
    kind: str,
) -> None:
    """Hive forgets it as soon as no older transaction is open, because a truncation is not recorded among the transaction's writes."""
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t {columns} {kind}")
    source_sql.run(f"insert into {db}.t values (1, 'a'), (2, 'b')")
    replica.follow()
    with ExitStack() as open_transactions:
        for each in (source, target):
            writer = open_transactions.enter_context(closing(WritingMetastore([each.metastore])))
            open_transactions.callback(writer.abort_txn, writer.open_txns()[0])
        roll_back(source_sql, f"truncate table {db}.t")
        source_sql.run(f"create table {db}.newer (id int) {ACID}")
        source_sql.run(f"insert into {db}.newer values (1)")  # Hive forgets all but the newest transaction
        replica.follow()
        check_equal(replica, source_sql, target_sql)
        assert sorted(target_sql.rows(f"select * from {replica.policy.target_db}.t")) == [
            ("1", "a"),
            ("2", "b"),
        ]
    wait_until(lambda: not replica.source.valid_write_ids([f"{db}.t"])[0].aborted)
    wait_until(lambda: not replica.target.valid_write_ids([f"{replica.policy.target_db}.t"])[0].aborted)
    check_equal(replica, source_sql, target_sql)
    assert target_sql.rows(f"select * from {replica.policy.target_db}.t") == []


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY], ids=["acid", "insert_only"])
@pytest.mark.parametrize("columns", ["(id int, dt string)", "(id int) partitioned by (dt string)"])
def test_a_truncated_table_takes_new_rows(
    source_sql: Session, target_sql: Session, replica: Replica, columns: str, kind: str
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t {columns} {kind}")
    source_sql.run(f"insert into {db}.t values (1, 'a'), (2, 'b')")
    source_sql.run(f"truncate table {db}.t")
    replica.follow()
    check_equal(replica, source_sql, target_sql)
    source_sql.run(f"insert into {db}.t values (3, 'a')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)
