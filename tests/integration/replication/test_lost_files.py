"""Files that were removed or replaced at the source before they were copied."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.decoding.messages import unpack
from handlers.metastore.client import Metastore
from state.store import Store
from state.store.memory import MemoryStore
from tests.builders.replication.replica import Replica, build_replica, files_below
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.stepped_loads import SteppedLoads
from tests.builders.replication.verification import verify


@dataclass(frozen=True)
class History:
    """A source database, and the newest event at four moments of its history."""

    db: str
    before: int
    after_loss: int
    after_rename: int
    after_drop: int


@pytest.fixture(scope="module")
def history(source: ClusterEndpoints) -> History:
    """``lost`` loses the file of its second insert, which is one transaction with ``other``'s; ``gone`` is
    dropped with its file."""
    db = f"lost_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql, closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, db)
        for table in ("lost", "other", "gone"):
            sql.run(f"create table {db}.{table} (id int) {ACID}")
        sql.run(f"insert into {db}.lost values (1)")
        sql.run(
            f"from {db}.lost s insert into {db}.lost select s.id + 1 insert into {db}.other select s.id + 10"
        )
        sql.run(f"insert into {db}.gone values (5)")
        sql.run(f"drop table {db}.gone")
        unlink_files(metastore, db, "lost", "delta_0000002_")
        replace_files(metastore, db, "other", "delta_0000001_", keep_in=Path(source.cmroot))
        sql.run(f"insert into {db}.other values (20)")
        after_loss = metastore.current_event_id()
        sql.run(f"alter table {db}.lost rename to {db}.moved")
        sql.run(f"create table {db}.lost (id int) {ACID}")
        sql.run(f"insert into {db}.lost values (100)")
        after_rename = metastore.current_event_id()
        sql.run(f"drop table {db}.moved")
        return History(db, before, after_loss, after_rename, metastore.current_event_id())


def unlink_files(metastore: Metastore, db: str, table: str, directory: str) -> None:
    """Remove the files of a transaction directly, without Hive."""
    for path in files_of(metastore, db, table, directory):
        path.unlink()


def replace_files(metastore: Metastore, db: str, table: str, directory: str, *, keep_in: Path) -> None:
    """Replace the files of a transaction after moving them to the change manager."""
    entries = [
        entry
        for event in metastore.next_events(0, -1)
        if event.eventType == "COMMIT_TXN"
        for entry in written_by(metastore, event.message, event.messageFormat, db, table)
    ]
    assert entries
    for entry in entries:
        uri, checksum, _, _ = entry.split("#")
        path = Path(urlsplit(uri).path)
        path.replace(keep_in / f"{path.name}_{checksum}")
        path.write_bytes(b"something else")


def written_by(
    metastore: Metastore, message: str, message_format: str | None, db: str, table: str
) -> list[str]:
    """Return the file entries of one table in a commit."""

    writes = metastore.write_events(unpack(message, message_format)["txnid"])
    texts = [write.files or "" for write in writes if (write.database, write.table) == (db, table)]
    return [entry for text in texts for entry in text.split("]") if entry]


def files_of(metastore: Metastore, db: str, table: str, directory: str) -> list[Path]:
    location = metastore.get_table(db, table).sd.location
    assert location is not None
    found = [Path(urlsplit(location).path) / name for name in files_below(location) if directory in name]
    assert found
    return found


def build(source: ClusterEndpoints, target: ClusterEndpoints, history: History, store: Store) -> Replica:
    return build_replica(
        source.metastore,
        target.metastore,
        db=history.db,
        roots=[source.warehouse, source.external, source.cmroot],
        store=store,
        start=False,
    )


@pytest.fixture
def replica(source: ClusterEndpoints, target: ClusterEndpoints, history: History) -> Iterator[Replica]:
    roots = [source.warehouse, source.external, source.cmroot]
    built = build_replica(
        source.metastore, target.metastore, db=history.db, roots=roots, start=history.before
    )
    yield built
    built.projection.close()


def test_a_lost_file_quarantines_its_table_and_nothing_else(
    replica: Replica,
    history: History,
    target_sql: Session,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
) -> None:
    db = replica.policy.target_db

    def ids(table: str) -> list[tuple[str, ...]]:
        return target_sql.rows(f"select id from {db}.{table} order by id")

    replica.follow(upto=history.after_loss)
    assert replica.quarantined() == {"lost": "file-lost"}
    assert ids("lost") == [("1",)], "the table keeps its earlier rows"
    assert target_sql.rows(f"select count(*) from {db}.lost") == [("1",)], "its statistics match these rows"
    assert ids("other") == [("11",), ("20",)], "the other table of the transaction is followed"
    assert replica.context.copies.counters().from_change_manager >= 2, "a replaced and a dropped file"

    replica.projection.close()
    replica = build(source, target, history, replica.store)
    replica.projection.open()
    assert replica.projection.quarantined() == (f"{history.db}.lost",), "the quarantine survives a restart"

    replica.projection.close()
    replica = build(source, target, history, MemoryStore())
    replica.projection.open()
    assert replica.quarantined() == {"lost": "file-lost"}, "and the loss of the state file"

    replica.follow(upto=history.after_rename)
    assert replica.quarantined() == {"moved": "file-lost"}, "a rename keeps the quarantine"
    assert ids("moved") == [("1",)]
    assert ids("lost") == [("100",)], "the old name belongs to a new table, which is followed"

    replica.follow(upto=history.after_drop)
    assert replica.quarantined() == {}, "a drop releases it"
    assert [line for line in replica.differences() if not line.startswith("other: file")] == [], (
        "but for the file that was replaced at the source"
    )
    replica.projection.close()


def test_a_table_with_unlogged_rows_that_was_renamed_meanwhile_is_loaded_under_its_new_name(
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    source_sql: Session,
    target_sql: Session,
    database: str,
) -> None:
    """Hive logs a write event only for the first partition of a multi-insert; the others must be listed at
    the source."""
    with closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(source_sql, database)
        source_sql.run(f"create table {database}.numbers (id int) {ACID}")
        source_sql.run(f"create table {database}.parts (id int) partitioned by (dt string) {ACID}")
        source_sql.run(f"insert into {database}.numbers values (1)")
        source_sql.run(
            f"from {database}.numbers s insert into {database}.parts partition (dt='a') select s.id "
            f"insert into {database}.parts partition (dt='b') select s.id"
        )
        written = metastore.current_event_id()
        source_sql.run(f"alter table {database}.parts rename to {database}.moved")
    roots = [source.warehouse, source.external, source.cmroot]
    replica = build_replica(source.metastore, target.metastore, db=database, roots=roots, start=before)
    with closing(replica.projection):
        replica.follow(upto=written)
        assert [each.table for each in replica.context.tables.loads.waiting()] == ["parts"]
        location = replica.target.get_table(replica.policy.target_db, "parts").sd.location
        assert location is not None
        assert files_below(location) == {}, "no part of the transaction is visible"
        replica.follow()
        assert replica.quarantined() == {}
        assert [each.table for each in replica.context.tables.loads.waiting()] == ["moved"]
        SteppedLoads(replica).finish()
        rows = target_sql.rows(f"select dt, id from {replica.policy.target_db}.moved order by dt")
        assert rows == [("a", "1"), ("b", "1")]
        assert verify(replica, "moved")["moved"].differences == ()
