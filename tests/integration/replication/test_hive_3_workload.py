"""Every kind of statement that Hive 3.1 has for transactional tables, relayed and replayed one by one: after
each, the tables that it names equal those of the source in rows, row ids and write ids."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from state.errors import NotFound
from tests.builders.components.hive_3 import read_rows
from tests.builders.replication.hive_3_source import ACID, INSERT_ONLY, PLAIN, Hive3Source
from tests.builders.replication.small_workload import roll_back


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

LINES: Final = "stored as textfile " + INSERT_ONLY.removeprefix("stored as orc ")
FAILS: Final = "fails: "
ROLLED_BACK: Final = "rolled back: "
STATEMENTS: Final = f"""
create table DB.st (k int, v string, dt string) {PLAIN}
insert into DB.st values (1,'a','d1'),(2,'b','d2'),(3,'c','d3')
create table DB.a (k int, v string) {ACID}
create table DB.p (k int, v string) partitioned by (dt string) {ACID}
create table DB.b (k int, v string) clustered by (k) into 2 buckets {ACID}
create table DB.mm (k int, v string) {LINES}
create table DB.mp (k int, v string) partitioned by (dt string) {INSERT_ONLY}
insert into DB.a values (1,'x'),(2,'y')
insert into DB.p partition (dt='d1') values (1,'x')
insert into DB.p partition (dt='d1') values (2,'y')
insert into DB.p partition (dt) select k, v, dt from DB.st
insert into DB.b values (1,'x'),(2,'y'),(3,'z')
insert into DB.mm values (1,'x')
insert into DB.mp partition (dt) select k, v, dt from DB.st
insert into DB.mp partition (dt='d1') values (9,'n')
update DB.a set v='u' where k=1
delete from DB.a where k=2
update DB.p set v='u' where k=1
delete from DB.p where k in (2,3)
update DB.b set v='bucket' where k>1
merge into DB.a t using DB.st u on t.k=u.k when matched then update set v=concat(u.v,'m')
 when not matched then insert values (u.k,u.v)
merge into DB.p t using (select k,v,'d9' as dt from DB.st) u on t.k=u.k when matched and u.k=1 then delete
 when matched then update set v='m' when not matched then insert values (u.k,u.v,u.dt)
insert overwrite table DB.a select k, v from DB.st
insert overwrite table DB.p partition (dt='d1') select k, v from DB.st
insert overwrite table DB.p partition (dt) select k, v, dt from DB.st where k<>1
insert overwrite table DB.mm select k, v from DB.st where k=1
from DB.st insert into DB.a select k, v insert into DB.p partition (dt='d1') select k, v
 insert into DB.mm select k,v
from DB.st insert into DB.p partition (dt='x1') select k, v where k=1
 insert into DB.p partition (dt='x2') select k, v where k=2
 insert into DB.p partition (dt='d1') select k,v where k=3
insert into DB.a select k, v from DB.st where k>100
insert into DB.p partition (dt) select k, v, dt from DB.st where k>100
update DB.p set v='nothing' where k=100
fails: insert into DB.a select k, assert_true(k<0) from DB.st
rolled back: insert into DB.a values (666,'r')
rolled back: insert into DB.p partition (dt='d1') values (666,'r')
rolled back: insert into DB.p partition (dt='r1') values (666,'r')
rolled back: insert into DB.mm values (666,'r')
create table DB.ctas {ACID} as select * from DB.st
create table DB.ctasmm {INSERT_ONLY} as select * from DB.st
truncate table DB.p partition (dt='d2')
truncate table DB.b
insert into DB.b values (4,'after')
truncate table DB.mm
alter table DB.p drop partition (dt='x1')
alter table DB.p partition (dt='x2') rename to partition (dt='x3')
insert into DB.p partition (dt='x3') values (8,'renamed')
alter table DB.a add columns (w int)
insert into DB.a values (7,'seven',7)
alter table DB.ctas rename to DB.renamed
insert into DB.renamed values (5,'e','d5')
analyze table DB.a compute statistics for columns
load data local inpath 'FILE' into table DB.mm
alter table DB.p add partition (dt='empty')
insert into DB.p partition (dt='empty') select k, v from DB.st where k>100
drop table DB.renamed
create table DB.renamed (k int) {ACID}
insert into DB.renamed values (1)
"""


def parse(statements: str) -> list[str]:
    """Return the statements; a line that begins with a space continues the one before."""
    return re.sub(r"\n ", " ", statements).strip().splitlines()


def run(old: Hive3Source, statement: str) -> None:
    if statement.startswith(FAILS):
        with pytest.raises(SqlFailed):
            old.sql.run(statement.removeprefix(FAILS))
    elif statement.startswith(ROLLED_BACK):
        roll_back(old.sql, statement.removeprefix(ROLLED_BACK))
    else:
        old.sql.run(statement)


def test_every_statement_has_the_same_effect_on_the_replica_without_a_load(
    old: Hive3Source, target_sql: Session, tmp_path: Path
) -> None:
    loaded = tmp_path / "load.txt"
    loaded.write_text("11\x01l\n")
    live = old.open_replica()
    with closing(live.replica.projection):
        for statement in parse(STATEMENTS):
            written = statement.replace("DB.", f"{old.db}.").replace("FILE", str(loaded))
            run(old, written)
            old.relay()
            live.follow()
            for table in sorted(set(re.findall(r"DB\.(\w+)", statement)) - {"st"}):
                try:
                    old.metastore.get_table(old.db, table)
                except NotFound:
                    continue
                old.assert_equal_now(live.replica, target_sql, table)
            assert live.replica.context.tables.loads.waiting() == (), statement
        rows = read_rows(target_sql, f"{live.replica.policy.target_db}.p")
        assert "666" not in {row[0] for row in rows}
