"""A source of Hive 3.1 in memory: its log, tables and partitions, and their directories on a disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daemon.sources.outbox import Outbox
from daemon.sources.unlogged_partitions import UnloggedPartitions
from handlers.decoding.decoder import decode
from handlers.events import FilesWritten, TxnCommitted
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.structs import tjson
from handlers.structs.notifications import NotificationEvent
from handlers.structs.objects import FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table
from state.errors import Unsupported
from tests.builders.kafka.fake_log import ListedLog
from tests.builders.kafka.fake_topics import relay_settings


ROWS = b"rows, and the end of an ORC file: ORC\x1a"


class SilentLog(ListedLog):
    """A log whose metastore has no call for write events."""

    def receive_write_events(self, txn_id: int, receiver: object, **_: object) -> None:
        del receiver
        self.asked_for_writes.append(txn_id)
        self._fail("write_events")
        raise Unsupported("the metastore does not know this call", call="get_all_write_event_info")


class ListedSource:
    """Writes events and files as Hive 3.1 does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = SilentLog()
        self.files: FileSystems = open_file_systems()
        self.sample = hashlib.md5(ROWS, usedforsecurity=False).hexdigest()
        self.txn_id = 0

    def create(self, name: str, *, keys: bool = False, insert_only: bool = False) -> Table:
        parameters = {"transactional": "true"}
        if insert_only:
            parameters["transactional_properties"] = "insert_only"
        table = Table(
            tableName=name,
            dbName="sales",
            createTime=1_700_000_000,
            sd=StorageDescriptor(cols=[], serdeInfo=SerDeInfo(), location=f"file:{self.root}/{name}"),
            partitionKeys=[FieldSchema(name="dt", type="string")] if keys else [],
            parameters=parameters,
        )
        (self.root / name).mkdir()
        self.log.tables["sales", name] = table
        return table

    def add(self, kind: str, message: dict[str, Any], *, db: str | None = "sales", table: str = " ") -> int:
        event_id = self.log.current_event_id() + 1
        self.log.add(
            NotificationEvent(
                eventId=event_id,
                eventTime=1_700_000_000 + event_id,
                eventType=kind,
                dbName=db,
                tableName=table,
                message=json.dumps(message),
                messageFormat="json-0.2",
            )
        )
        return event_id

    def begin(self, *allocations: tuple[str, int], db: str = "sales") -> int:
        """Open a transaction with write ids, and return its id."""
        self.txn_id += 1
        self.add("OPEN_TXN", {"fromTxnId": self.txn_id, "toTxnId": self.txn_id}, db="null")
        for table, write_id in allocations:
            message = {
                "dbName": db,
                "tableName": table,
                "txnIdList": [self.txn_id],
                "writeIdList": [write_id],
            }
            self.add("ALLOC_WRITE_ID_EVENT", message, db=db)
        return self.txn_id

    def commit(self, txn_id: int) -> int:
        return self.add("COMMIT_TXN", {"txnid": txn_id, "timestamp": 0}, db="null")

    def lay(self, place: str, directory: str, name: str = "bucket_00000", content: bytes = ROWS) -> str:
        """Write a file into the directory of a table (``t``) or partition (``t/dt=a``); return its URI."""
        path = self.root / place / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"file:{path}"

    def write(self, table: str, write_id: int) -> None:
        """Write into a table without partitions, as INSERT does."""
        self.alter(table)
        self.insert(table, self.lay(table, delta(write_id)))

    def alter(self, table: str) -> None:
        message = {**self._names(table), "tableObjBeforeJson": self._table(table)}
        self.add("ALTER_TABLE", message | {"tableObjAfterJson": self._table(table)}, table=table)

    def insert(self, table: str, *uris: str, day: str | None = None) -> None:
        """Log INSERT, with checksums and without the directories of the files."""
        entries = [f"{uri}#{self.sample}#file:{self.root}/cm#" for uri in uris]
        message = {
            **self._names(table),
            "tableObjJson": self._table(table),
            "files": entries,
            "replace": "false",
        }
        if day is not None:
            message["ptnObjJson"] = tjson.encode(self.log.partitions[f"dt={day}"])
        self.add("INSERT", message, table=table)

    def add_partition(self, table: str, day: str, *, place: str | None = None) -> None:
        """Add a partition, in the directory ``place`` of the warehouse or in that of its name."""
        place = place or f"{table}/dt={day}"
        where = f"file:{self.root}/{place}"
        partition = Partition(
            values=[day],
            dbName="sales",
            tableName=table,
            createTime=1_700_000_000,
            sd=StorageDescriptor(cols=[], serdeInfo=SerDeInfo(), location=where),
            parameters={},
        )
        (self.root / place).mkdir(exist_ok=True)
        self.log.partitions[f"dt={day}"] = partition
        message = {
            **self._names(table),
            "tableObjJson": self._table(table),
            "partitions": [{"dt": day}],
            "partitionFiles": [{"partitionName": f"dt={day}", "files": []}],
            "partitionListJson": [tjson.encode(partition)],
        }
        self.add("ADD_PARTITION", message, table=table)

    def alter_partition(self, table: str, day: str) -> None:
        encoded = tjson.encode(self.log.partitions[f"dt={day}"])
        message = {
            **self._names(table),
            "tableObjJson": self._table(table),
            "keyValues": {"dt": day},
            "partitionObjBeforeJson": encoded,
            "partitionObjAfterJson": encoded,
        }
        self.add("ALTER_PARTITION", message, table=table)

    def move_partition(self, table: str, day: str, place: str) -> None:
        """Change the location of a partition, to the directory ``place`` of the warehouse."""
        partition = self.log.partitions[f"dt={day}"]
        before = tjson.encode(partition)
        (self.root / place).mkdir(exist_ok=True)
        partition.sd.location = f"file:{self.root}/{place}"
        message = {
            **self._names(table),
            "tableObjJson": self._table(table),
            "keyValues": {"dt": day},
            "partitionObjBeforeJson": before,
            "partitionObjAfterJson": tjson.encode(partition),
        }
        self.add("ALTER_PARTITION", message, table=table)

    def _names(self, table: str) -> dict[str, Any]:
        return {"db": "sales", "table": table}

    def _table(self, table: str) -> str:
        return tjson.encode(self.log.tables["sales", table])

    def outbox(self, *, scan_tables: Sequence[str] = (), **settings: Any) -> Outbox:
        unlogged = UnloggedPartitions(
            ["sales"], self.files, AllowedRoots.of([f"file:{self.root}"]), scan_tables=scan_tables
        )
        return Outbox(self.log.connect, relay_settings(**settings), hard_bytes_max=1 << 20, unlogged=unlogged)

    def relay(self, box: Outbox | None = None, after: int = 0) -> list[FilesWritten | TxnCommitted]:
        """Return the write events and commits as the relay publishes them."""
        box = box or self.outbox()
        events = [
            decode(record.value, record.headers)
            for record in box.records(after + 1, self.log.current_event_id())
        ]
        box.close()
        return [event for event in events if isinstance(event, FilesWritten | TxnCommitted)]


def delta(write_id: int, statement: int = 0) -> str:
    return f"delta_{write_id:07d}_{write_id:07d}_{statement:04d}"
