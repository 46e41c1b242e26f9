"""Writes into partitions of which one's name is a prefix of another's,
such as ``month=1`` and ``month=10``, on real metastores.

Hive's write event of a partition then also names the files of the other one
(``handlers.decoding.write_events``).
"""

from __future__ import annotations

from typing import Final

import pytest

from dev.stack.hive.sql_session import Session
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, PLAIN, create_source
from tests.builders.replication.verification import verify


KINDS: Final = {
    "acid": ACID,
    "bucketed": f"clustered by (id) into 2 buckets {ACID}",
    "insert-only": (
        "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
    ),
    "plain": PLAIN,
}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("acid", marks=pytest.mark.long),
        pytest.param("bucketed", marks=pytest.mark.long),
        "insert-only",
        pytest.param("plain", marks=pytest.mark.long),
    ],
)
def test_rows_of_a_partition_whose_name_continues_anothers_are_replicated_once(
    source_sql: Session, target_sql: Session, replica: Replica, kind: str
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    table = f"{db}.sales"
    source_sql.run(f"create table {table} (id int, item string) partitioned by (month string) {KINDS[kind]}")
    source_sql.run(f"insert into {table} values (2,'a','1'), (4,'b','10'), (6,'c','1:0'), (8,'d','1 0')")
    source_sql.run(f"insert into {table} select id + 10, item, concat(month, '0') from {table}")
    source_sql.run(
        f"from (select 21 as id) s insert into {table} partition (month='1') select s.id, 'e' "
        f"insert into {table} partition (month='10') select s.id + 1, 'f'"
    )
    if kind in {"acid", "bucketed"}:
        source_sql.run(f"update {table} set item = 'g' where id > 10")
        source_sql.run(f"delete from {table} where id in (6, 8)")
    source_sql.run(f"insert overwrite table {table} select id, upper(item), month from {table} where id < 16")
    replica.follow()
    rows = [
        sql.rows(f"select * from {name}.sales") for sql, name in ((source_sql, db), (target_sql, target_db))
    ]
    assert replica.quarantined() == {}
    assert sorted(rows[1]) == sorted(rows[0])
    results = verify(replica, "sales")
    assert results["sales"].differences == ()
