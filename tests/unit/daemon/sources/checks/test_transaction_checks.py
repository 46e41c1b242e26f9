"""What a source of Hive 3.1 needs, and what it risks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from daemon.config.settings.clusters import RelayConfig, SourceConfig
from daemon.sources.checks.transaction_checks import EVENTS_MAX, check_transactions
from handlers.metastore.calls import V3_1, V4_2, HiveVersion
from handlers.structs import tjson
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from handlers.structs.objects import Database, FieldSchema, StorageDescriptor, Table
from state.errors import Unsupported


@dataclass
class Source:
    """A metastore of Hive 3.1 with a log."""

    hive_version: HiveVersion = V3_1
    settings: dict[str, str] = field(default_factory=dict)
    databases: dict[str, dict[str, str]] = field(default_factory=lambda: {"shop": {"repl.source.for": "p"}})
    reports_files: bool = False
    events: list[NotificationEvent] = field(default_factory=list)

    def config_value(self, key: str, default: str = "") -> str:
        return self.settings.get(key, default)

    def database_names(self) -> list[str]:
        return list(self.databases)

    def get_database(self, name: str) -> Database:
        return Database(name=name, parameters=self.databases[name])

    def current_event_id(self) -> int:
        return self.events[-1].eventId if self.events else 0

    def next_events(self, after: int, limit: int) -> Sequence[NotificationEvent]:
        return [event for event in self.events if event.eventId > after][:limit]

    def write_events(self, txn_id: int) -> Sequence[WriteEventInfo]:
        assert txn_id == 0
        if not self.reports_files:
            raise Unsupported("Hive 3.1 has no get_all_write_event_info")
        return []

    def log(self, kind: str, table: str = " ", *, db: str = "shop", **message: Any) -> None:
        """Log an event as Hive 3.1 does; those of transactions have no names in their row."""
        names = {} if table == " " else {"table": table}
        content = {"db": db, **names, **message}
        self.events.append(
            NotificationEvent(
                eventId=len(self.events) + 1,
                eventTime=1,
                eventType=kind,
                dbName=db,
                tableName=table,
                message=json.dumps(content),
                messageFormat="json-0.2",
            )
        )

    def write(self, txn: int, table: str, *kinds: str) -> None:
        """Log a transaction that allocates a write id of ``table``, changes it, and commits."""
        self.log("ALLOC_WRITE_ID_EVENT", dbName="shop", tableName=table, txnIdList=[txn], writeIdList=[txn])
        for kind in kinds:
            self.log(kind, table, **message_of(kind, table))
        self.log("COMMIT_TXN", db="null", txnid=txn)


def message_of(kind: str, table: str) -> dict[str, Any]:
    described = Table(
        tableName=table,
        dbName="shop",
        sd=StorageDescriptor(cols=[FieldSchema(name="k", type="int")], location=f"file:/w/{table}"),
        partitionKeys=[],
        parameters={"transactional": "true"},
        tableType="MANAGED_TABLE",
    )
    text = tjson.encode(described)
    if kind == "INSERT":
        return {"tableObjJson": text, "files": [], "replace": "false"}
    return {"tableObjBeforeJson": text, "tableObjAfterJson": text, "isTruncateOp": "false"}


def problems(source: Source, *roots: str, lists: bool = True) -> dict[str, str]:
    config = SourceConfig(
        metastore=["thrift://s:9083"],
        topic="t",
        read_roots=list(roots or ["hdfs://nn/warehouse"]),
        relay=RelayConfig(list_partitions=lists),
    )
    found = list(check_transactions(source, "source lake", config, lambda name: name == "shop"))
    assert all(each.warning for each in found)
    return {each.key: f"{each.reason} ({each.hint})" for each in found}


def test_a_source_that_keeps_and_logs_everything_has_no_problem() -> None:
    source = Source(settings={"hive.compactor.initiator.on": "true", "hive.compactor.check.interval": "300s"})
    source.write(1, "t", "ALTER_TABLE", "INSERT", "ALTER_TABLE")
    assert problems(source, "hdfs://nn/warehouse") == {}


def test_databases_of_policies_must_be_marked_so_that_their_files_are_kept() -> None:
    source = Source(databases={"shop": {}, "other": {}})
    assert list(problems(source)) == ["repl.source.for of shop"]


def test_a_relay_that_must_not_list_is_a_problem() -> None:
    assert list(problems(Source(), lists=False)) == ["relay.list_partitions"]


def test_directories_of_object_stores_are_a_risk_because_their_files_have_no_checksums() -> None:
    assert list(problems(Source(), "hdfs://nn/warehouse", "s3a://lake/warehouse")) == ["read_roots"]


@pytest.mark.parametrize(("interval", "is_risk"), [("5s", True), ("300s", False), ("", False)])
def test_a_compactor_that_begins_at_once_is_a_risk(interval: str, is_risk: bool) -> None:
    settings = {"hive.compactor.initiator.on": "true", "hive.compactor.check.interval": interval}
    expected = ["hive.compactor.check.interval"] if is_risk else []
    assert list(problems(Source(settings=settings))) == expected


def test_commits_without_insert_events_show_writers_that_do_not_log_files() -> None:
    source = Source()
    source.write(1, "t", "ALTER_TABLE", "INSERT", "ALTER_TABLE")
    source.write(2, "a", "ALTER_TABLE", "ALTER_TABLE")
    source.write(3, "b", "ALTER_TABLE")
    (text,) = problems(source).values()
    assert "2 of the 3 newest commits changed a table but logged no INSERT, among them shop.a, shop.b" in text


def test_commits_without_any_event_of_their_table_show_streaming_writers() -> None:
    source = Source()
    source.write(1, "s")
    (text,) = problems(source).values()
    assert "1 of the 1 newest commits logged no event of their table, among them shop.s" in text


def test_an_event_counts_for_all_transactions_that_write_into_its_table() -> None:
    source = Source()
    source.log("ALLOC_WRITE_ID_EVENT", dbName="shop", tableName="t", txnIdList=[1, 2], writeIdList=[1, 2])
    source.log("INSERT", "t", **message_of("INSERT", "t"))
    source.log("COMMIT_TXN", db="null", txnid=1)
    source.log("COMMIT_TXN", db="null", txnid=2)
    assert problems(source) == {}


def test_aborted_transactions_and_events_that_cannot_be_read_do_not_count() -> None:
    source = Source()
    source.log("ALLOC_WRITE_ID_EVENT", dbName="shop", tableName="t", txnIdList=[1], writeIdList=[1])
    source.log("ABORT_TXN", db="null", txnid=1)
    source.log("ALTER_TABLE", "t")
    assert problems(source) == {}


def test_only_the_newest_events_are_read() -> None:
    source = Source()
    source.write(1, "s")
    for event in source.events:
        event.eventId -= EVENTS_MAX
    source.log("COMMIT_TXN", db="null", txnid=9)
    assert problems(source) == {}


def test_a_source_that_reports_files_is_not_checked_whatever_its_version_says() -> None:
    assert problems(Source(databases={"shop": {}}, reports_files=True)) == {}
    assert problems(Source(databases={"shop": {}}, hive_version=V4_2)) == {}


def test_hive_2_3_is_a_warning_with_the_remedy() -> None:
    (text,) = problems(Source(hive_version=HiveVersion(2, 3))).values()
    assert "transaction ids instead of write ids" in text
    assert "run a major compaction of each, upgrade the metastore" in text
