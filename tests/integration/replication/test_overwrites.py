"""INSERT OVERWRITE of transactional tables: Hive may show a base before its transaction ends, and replay must
not let it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.files.paths import parse_location
from handlers.replication.transactions import transaction_replay as transactions
from handlers.replication.transactions.copies import transaction_files
from tests.builders.replication.replica import Replica
from tests.builders.replication.small_workload import ACID, INSERT_ONLY, create_source
from tests.builders.replication.verification import check_equal


Rows = list[tuple[str, ...]]
STEPS = ("replay.after-copies", "replay.before-commit", "replay.after-commit")


@pytest.mark.parametrize("older_open", [False, True], ids=["alone", "with an older open write"])
@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY], ids=["acid", "insert_only"])
def test_readers_see_the_old_rows_of_an_overwritten_table_until_the_commit(
    source: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    replica: Replica,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    *,
    older_open: bool,
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int, name string) clustered by (id) into 2 buckets {kind}")
    source_sql.run(f"insert into {db}.t values (1, 'old'), (2, 'old')")
    with closing(WritingMetastore([source.metastore])) as writer:
        older = writer.open_write(db, "t")[0] if older_open else None
    replica.follow()
    source_sql.run(f"insert overwrite table {db}.t values (1, 'new'), (2, 'new'), (3, 'new')")
    seen: dict[str, Rows] = {}

    def read(step: str) -> None:
        if step in STEPS:  # each query has a text of its own, so that no result comes from a cache
            seen[step] = sorted(target_sql.rows(f"select id, name from {target_db}.t where name <> '{step}'"))

    for module in (transaction_files, transactions):
        monkeypatch.setattr(module, "failpoint", read)
    replica.follow()
    old, new = [("1", "old"), ("2", "old")], [("1", "new"), ("2", "new"), ("3", "new")]
    assert seen == dict(zip(STEPS, (old, old, new), strict=True))
    if older is not None:
        replica.source.abort_txn(older)
    source_sql.run(f"insert into {db}.t values (4, 'later')")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


def test_rows_of_an_overwrite_are_updated_and_deleted(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int, name string) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.t values (1, 'old', 'a'), (2, 'old', 'b')")
    source_sql.run(
        f"insert overwrite table {db}.t partition (dt) values (3, 'new', 'a'), (4, 'new', 'b'), (5, 'new', "
        "'b')"
    )
    source_sql.run(f"update {db}.t set name = 'changed' where id = 3")
    source_sql.run(f"delete from {db}.t where id = 4")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY], ids=["acid", "insert_only"])
def test_files_loaded_in_place_of_all_rows_are_read_on_the_target(
    source_sql: Session, target_sql: Session, replica: Replica, tmp_path: Path, kind: str
) -> None:
    db = replica.policy.source_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int, name string) {kind}")
    source_sql.run(
        f"create table {db}.plain (id int, name string) {kind.partition(' tblproperties')[0]} tblproperties "
        "('transactional'='false')"
    )
    source_sql.run(f"insert into {db}.plain values (1, 'loaded'), (2, 'loaded')")
    source_sql.run(f"insert into {db}.t values (9, 'old')")
    location = replica.source.get_table(db, "plain").sd.location or ""
    (loaded,) = Path(parse_location(location).path).glob("0*")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "000000_0").write_bytes(loaded.read_bytes())
    source_sql.run(f"load data local inpath '{tmp_path}/in' overwrite into table {db}.t")
    replica.follow()
    check_equal(replica, source_sql, target_sql)


def test_an_overwrite_that_lost_a_file_leaves_the_old_rows(
    source_sql: Session, target_sql: Session, replica: Replica
) -> None:
    db, target_db = replica.policy.source_db, replica.policy.target_db
    create_source(source_sql, db)
    source_sql.run(f"create table {db}.t (id int) partitioned by (dt string) {ACID}")
    source_sql.run(f"insert into {db}.t values (1, 'a'), (2, 'b')")
    source_sql.run(f"insert overwrite table {db}.t partition (dt) values (3, 'a'), (4, 'b')")
    root = Path(parse_location(replica.source.get_table(db, "t").sd.location or "").path)
    (lost,) = (root / "dt=b" / "base_0000002").glob("bucket_*")
    lost.unlink()
    replica.follow()
    assert replica.quarantined() == {"t": "file-lost"}
    assert sorted(target_sql.rows(f"select id, dt from {target_db}.t")) == [("1", "a"), ("2", "b")]
