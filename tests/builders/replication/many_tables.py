"""A database with very many small transactional tables,
written through the metastore with copies of one real file.

A SQL engine would need minutes for a thousand tables. The files are ORC files that Hive wrote, so a SQL
engine can read all tables.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.hive.sql_session import Session
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.objects import Table
from tests.builders.replication.small_workload import ACID, create_source


@dataclass
class ManyTables:
    """The tables ``t0000`` and so on, each with one row, and with the history that its number determines."""

    db: str
    names: list[str]
    held: list[int] = field(default_factory=list)
    """Transactions that hold a write id of a table and are still open."""


def write_many(sql: Session, source: WritingMetastore, db: str, count: int) -> ManyTables:
    """Create ``count`` tables: a fifth has aborted write ids, a fifth is compacted, and a hundredth is being
    written to."""
    create_source(sql, db)
    sql.run(f"create table {db}.t0000 (id int) {ACID}")
    sql.run(f"insert into {db}.t0000 values (1)")
    template = source.get_table(db, "t0000")
    (written,) = path_of(template).glob("delta_0000001_0000001_0000/bucket_*")
    made = ManyTables(db, [f"t{number:04d}" for number in range(count)])
    for number, name in enumerate(made.names[1:], 1):
        _write_one(source, template, written, name)
        if number % 5 == 1:
            _abort_one(source, db, name)
        if number % 5 == 2:
            _compact(source, db, name)
        if number % 100 == 3:
            made.held.append(_hold(source, db, name))
    return made


def path_of(table: Table) -> Path:
    """Return the directory of a table on the local file system."""
    return Path(urlsplit(table.sd.location or "").path)


def _write_one(source: WritingMetastore, template: Table, written: Path, name: str) -> None:
    """Create a table and commit one row."""
    made = source.get_table(template.dbName, template.tableName)
    made.tableName, made.id, made.writeId, made.sd.location = name, None, None, None
    made.parameters = {"transactional": "true", "transactional_properties": "default"}
    source.create_table(made)
    txn_id, write_id = source.open_write(template.dbName, name)
    file = _lay(source, template.dbName, name, write_id, written)
    source.add_write_notification(
        txn_id,
        write_id,
        template.dbName,
        name,
        InsertEventRequestData(filesAdded=[f"file:{file}"], subDirectoryList=[file.parent.name]),
    )
    source.commit_txn(txn_id)


def _lay(source: WritingMetastore, db: str, name: str, write_id: int, written: Path) -> Path:
    file = path_of(source.get_table(db, name)) / f"delta_{write_id:07d}_{write_id:07d}_0000" / written.name
    file.parent.mkdir(parents=True)
    shutil.copyfile(written, file)
    return file


def _abort_one(source: WritingMetastore, db: str, name: str) -> None:
    """Abort a transaction that has written no file: only a SQL engine registers its writes, so that Hive
    remembers the abort."""
    source.abort_txn(source.open_write(db, name)[0])


def _compact(source: WritingMetastore, db: str, name: str) -> None:
    """Replace the only delta by a base, in a transaction of its own, as Hive's compactor and cleaner do."""
    (txn_id,) = source.open_txns()
    root = path_of(source.get_table(db, name))
    (root / "delta_0000001_0000001_0000").rename(root / f"base_0000001_v{txn_id:07d}")
    source.commit_txn(txn_id)


def _hold(source: WritingMetastore, db: str, name: str) -> int:
    return source.open_write(db, name)[0]
