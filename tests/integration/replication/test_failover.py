"""A failover drill: the replica is promoted while a transaction is open, writers use it, and the old source
follows it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.replication.loading.bootstrap import PROMOTED, begin_bootstrap
from state.errors import ConfigError
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, PLAIN


def _write_source(sql: Session, db: str) -> None:
    sql.run(f"create database {db}")
    sql.run(f"create table {db}.orders (id int, item string) {ACID}")
    sql.run(f"create table {db}.visits (id int, page string) partitioned by (dt string) {ACID}")
    sql.run(f"create table {db}.plain (id int) {PLAIN}")
    sql.run(f"insert into {db}.orders values (1, 'pen'), (2, 'ink')")
    sql.run(f"insert into {db}.visits values (1, '/a', 'a'), (2, '/b', 'b')")
    sql.run(f"insert into {db}.plain values (1), (2)")


def _replica(
    source: ClusterEndpoints, target: ClusterEndpoints, db: str, target_db: str, *, reuses_files: bool = False
) -> Replica:
    """Return a replica of ``db`` whose bootstrap has begun."""
    roots = [source.warehouse, source.external, source.cmroot]
    built = build_replica(
        source.metastore, target.metastore, db=db, target_db=target_db, roots=roots, start=False
    )
    begin_bootstrap(
        source=built.source,
        target=built.target,
        policy=built.policy,
        store=built.store,
        reuses_files=reuses_files,
    )
    return built


def _table_directory(replica: Replica, table: str) -> Path:
    location = replica.target.get_table(replica.policy.target_db, table).sd.location
    return Path(urlsplit(location or "").path)


def _leave_early_copy(replica: Replica, write_id: int) -> Path:
    """Put a file where a killed process may have left one: under a write id that is open on the target."""
    junk = (
        _table_directory(replica, "orders") / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000_0"
    )
    junk.parent.mkdir(parents=True)
    junk.write_bytes(b"not even ORC")
    return junk


def _times_ns(directory: Path) -> dict[str, int]:
    """Return when each visible file below a directory was written."""
    return {
        str(path.relative_to(directory)): path.stat().st_mtime_ns
        for path in directory.rglob("bucket_*")
        if path.is_file()
    }


@pytest.mark.long
def test_a_promoted_replica_is_written_to_and_the_old_source_follows_it_with_only_what_changed(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
) -> None:
    copy = f"{database}_r"
    _write_source(source_sql, database)
    with closing(WritingMetastore([source.metastore])) as writer:
        replica = _replica(source, target, database, copy)
        replica.follow()
        open_txn, write_id = writer.open_write(database, "orders")
        replica.follow()
    assert replica.target.replayed_txns(replica.policy.txn_map_key).keys() == {open_txn}
    junk = _leave_early_copy(replica, write_id)

    done = replica.projection.promote(forced=False)
    assert done.open_writes == {"orders": (write_id,)}
    assert (done.aborted, done.unmarked) == (1, True)
    assert not junk.exists(), "it would appear as soon as Hive forgets the aborted transaction"
    assert replica.target.replayed_txns(replica.policy.txn_map_key) == {}
    ours = replica.target.get_database(copy).parameters or {}
    assert ours == {PROMOTED: f"{database}:{done.event_id}"}
    assert "repl.source.for" not in (replica.source.get_database(database).parameters or {})
    with pytest.raises(ConfigError, match="promoted"):
        replica.projection.open()

    # Writers use the new side; the old one has a row that was never replicated.
    source_sql.run(f"insert into {database}.orders values (666, 'only on the old source')")
    target_sql.run(f"insert into {copy}.orders values (3, 'new')")
    target_sql.run(f"insert into {copy}.visits partition (dt='c') values (4, '/new')")
    target_sql.run(f"update {copy}.orders set item = 'INK' where id = 2")
    target_sql.run(f"alter table {copy}.visits drop partition (dt='b')")
    orders = [("1", "pen"), ("2", "INK"), ("3", "new")]
    visits = [("1", "/a", "a"), ("4", "/new", "c")]
    assert target_sql.rows(f"select * from {copy}.orders order by id") == orders
    assert target_sql.rows(f"select * from {copy}.visits order by id") == visits

    old = Path(urlsplit(replica.source.get_table(database, "orders").sd.location or "").path)
    before = _times_ns(old)
    back = _replica(target, source, copy, database, reuses_files=True)
    back.follow()
    skipped = back.context.copies.counters().skipped
    assert source_sql.rows(f"select * from {database}.orders order by id") == orders
    assert source_sql.rows(f"select * from {database}.visits order by id") == visits
    assert source_sql.rows(f"select * from {database}.plain order by id") == [("1",), ("2",)]
    after = _times_ns(old)
    replaced = f"delta_{write_id + 1:07d}_{write_id + 1:07d}_0000"
    rewritten = {path.partition("/")[0] for path in before if after.get(path) != before[path]}
    assert rewritten == {replaced}, "only the file that the old source wrote under the same write id differs"
    assert skipped == 3, "the first files of both tables, and of the partition that is still there"
    assert back.differences(files=False) == []

    target_sql.run(f"insert into {copy}.orders values (5, 'after')")
    target_sql.run(f"insert into {copy}.visits partition (dt='b') values (6, '/b')")
    back.follow()
    assert source_sql.rows(f"select id from {database}.orders order by id") == [
        ("1",),
        ("2",),
        ("3",),
        ("5",),
    ]
    assert source_sql.rows(f"select * from {database}.visits where dt = 'b'") == [("6", "/b", "b")]
    replica.projection.close()
    back.projection.close()
