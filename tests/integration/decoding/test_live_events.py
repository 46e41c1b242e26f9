"""Events of a real metastore are decoded completely: every event of a workload, its objects and its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import orjson
import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.decoding.decoder import decode
from handlers.decoding.records.encoder import encode
from handlers.events import Embedded, Event, FilesWritten, Inserted, TxnCommitted, Undecodable, Unhandled
from handlers.metastore.client import Metastore
from handlers.structs.notifications import NotificationEvent


WORKLOAD = """
create database {db} with dbproperties ('repl.source.for'='tests');
create table {db}.orders (id int, item string comment 'line one\nline two') stored as orc
  tblproperties ('transactional'='true');
create table {db}.visits (id int) partitioned by (day string) stored as orc
  tblproperties ('transactional'='true');
create external table {db}.plain (id int) partitioned by (`day` string) stored as textfile;
insert into {db}.orders values (1, 'pen'), (2, 'ink');
insert into {db}.visits partition (day) select 1, '2024-05-01' union all select 2, 'odd/=%#"value';
update {db}.orders set item = 'cap' where id = 2;
insert into {db}.plain partition (`day`='1') values (1);
insert overwrite table {db}.plain partition (`day`='1') values (2);
alter table {db}.visits drop partition (day='2024-05-01');
alter table {db}.orders rename to {db}.orders2;
drop table {db}.orders2;
"""


@pytest.fixture
def metastore(source: ClusterEndpoints) -> Iterator[Metastore]:
    client = Metastore(source.metastore)
    yield client
    client.close()


def objects_of(event: Event) -> Iterator[Embedded[object]]:
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        yield from (
            item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Embedded)
        )


def decoded(notification: NotificationEvent, metastore: Metastore) -> list[Event]:
    txn_id = None
    if notification.eventType == "COMMIT_TXN":
        whole = decode(orjson.dumps(notification.set_fields()))
        assert isinstance(whole, TxnCommitted)
        txn_id = whole.txn_id
    writes = metastore.write_events(txn_id) if txn_id is not None else None
    return [
        decode(r.value, r.headers) for r in encode("lake", notification, writes, record_bytes_max=512 * 1024)
    ]


def test_every_event_of_a_real_workload_is_decoded(
    source_sql: Session, metastore: Metastore, database: str
) -> None:
    before = metastore.current_event_id()
    source_sql.script(WORKLOAD.format(db=database))
    events = [event for n in metastore.next_events(before, 10_000) for event in decoded(n, metastore)]

    assert not [event for event in events if isinstance(event, Undecodable)]
    assert not [event for event in events if isinstance(event, Unhandled) and not event.is_known]
    for event in events:
        for item in objects_of(event):
            assert item.value == item.copy()

    mine = [event for event in events if event.db == database]
    written = [event for event in mine if isinstance(event, FilesWritten)]
    inserted = [event for event in mine if isinstance(event, Inserted)]
    assert {(event.table, event.partition_name.partition("=")[0]) for event in written} == {
        ("orders", ""),
        ("visits", "day"),
    }
    assert [event.replace for event in inserted] == [True]
    dropped = {"orders", "orders2"}
    with_files: list[FilesWritten | Inserted] = [*written, *inserted]
    for event in with_files:
        for file in event.files:
            assert file.checksum
            if event.table not in dropped and "2024-05-01" not in file.uri:
                assert Path(urlparse(file.uri).path).exists(), file
