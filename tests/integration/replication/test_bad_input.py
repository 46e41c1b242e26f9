"""Bad records in a real topic: their table is quarantined, a dead letter is kept, and everything else
continues."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from daemon.consumer.projection import ProjectionStatus, follow
from daemon.consumer.settings import ConsumerSettings
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.dead_letter_reader import DeadLetterReader
from daemon.kafka.dead_letters import DeadLetterWriter
from daemon.kafka.topic import Topic, TopicSettings
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.decoding.decoder import decode
from handlers.decoding.records.encoder import encode
from handlers.decoding.records.record_writer import Record
from handlers.events import TxnCommitted
from handlers.metastore.client import Metastore
from handlers.replication.projection import ReplicationProjection
from tests.builders.kafka.relay_and_readers import run_in_turns
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.stepped_loads import SteppedLoads


Message = dict[str, Any]


@dataclass(frozen=True)
class Bad:
    """One kind of bad input: how which records of the table of the same name are spoiled, and the expected
    result."""

    kind: str
    code: str
    change: Callable[[Message], None]
    dead_letter: bool
    """Whether the record itself cannot be read; otherwise only replay cannot use it."""


def with_file(record: Message, old: str, new: str) -> None:
    record["message"]["files"] = [entry.replace(old, new, 1) for entry in record["message"]["files"]]


def climb(record: Message) -> None:
    entry = record["message"]["files"][0]
    record["message"]["files"] = [entry.rpartition("#")[0] + "#../../stranger"]


def oversize(record: Message) -> None:
    record.update(message=None, oversize=123_456_789)


def not_an_object(record: Message) -> None:
    record["message"]["tableObjAfterJson"] = "{this is no object"


BAD = {
    "unreadable": Bad("ALTER_TABLE", "malformed-event", lambda r: r.update(message=7), dead_letter=True),
    "objectless": Bad("ALTER_TABLE", "malformed-event", not_an_object, dead_letter=False),
    "climbing": Bad("WRITE", "unsafe-path", climb, dead_letter=False),
    "outside": Bad("WRITE", "unsafe-path", lambda r: with_file(r, "file:/", "file:/etc/"), dead_letter=False),
    "torn": Bad("WRITE", "malformed-event", lambda r: r["message"].update(files=["half"]), dead_letter=True),
    "oversize": Bad("WRITE", "limit-exceeded", oversize, dead_letter=True),
}
"""The kinds of bad input, by the name of their table."""


@dataclass(frozen=True)
class Source:
    """A source database with one table for each kind of bad input and a good one, and its log as records."""

    db: str
    before: int
    last: int
    records: list[Record]


@pytest.fixture(scope="module")
def written_source(source: ClusterEndpoints) -> Source:
    db = f"bad_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql, closing(Metastore([source.metastore])) as metastore:
        before = metastore.current_event_id()
        create_source(sql, db)
        for table in (*BAD, "fine"):
            sql.run(f"create table {db}.{table} (id int) {ACID}")
            sql.run(f"insert into {db}.{table} values (1)")
        sql.run(f"insert into {db}.fine values (2)")
        last = metastore.current_event_id()
        return Source(db, before, last, read_records(metastore, before, last))


def read_records(metastore: Metastore, before: int, last: int) -> list[Record]:
    """Read the log as the relay does."""
    found: list[Record] = []
    for notification in metastore.next_events(before, last - before):
        record = encode("lake", notification, None, record_bytes_max=512 * 1024)[0]
        event = decode(record.value, record.headers)
        writes = metastore.write_events(event.txn_id) if isinstance(event, TxnCommitted) else None
        found += encode("lake", notification, writes, record_bytes_max=512 * 1024)
    return found


class Followed:
    """A replica's projection that is never paused and gets no requests."""

    def __init__(self, projection: ReplicationProjection) -> None:
        self._projection = projection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._projection, name)

    def prepare(self) -> Iterator[float]:
        yield from ()

    hold = prepare


@dataclass
class Rig:
    """A topic, and a replica that reads it through the daemon's consumer."""

    broker: BrokerSettings
    topic: Topic
    replica: Replica
    stopping: threading.Event = field(default_factory=threading.Event)

    def produce(self, values: list[tuple[Record, bytes]]) -> None:
        with closing(Producer({"bootstrap.servers": self.broker.bootstrap})) as producer:
            for record, value in values:
                producer.produce(
                    self.topic.name, key=record.key, value=value, headers=list(record.headers), partition=0
                )
            assert producer.flush(30) == 0

    def follow(self, upto: int) -> None:
        """Run the daemon's loop until ``upto`` is applied."""
        letters = DeadLetterWriter(
            self.broker, TopicSettings(self.dead_letter_topic), origin=self.topic.name, reader="test"
        )
        reader = TopicReader(self.broker, self.topic, ConsumerSettings(group="test", format="auto"), letters)

        def report(status: ProjectionStatus) -> None:
            if status.position is not None and status.position.applied_event_id >= upto:
                self.stopping.set()

        with closing(letters):
            run_in_turns(follow(Followed(self.replica.projection), reader, self, report), self.stopping)

    @property
    def dead_letter_topic(self) -> str:
        return f"{self.topic.name}.dead"

    def letters(self) -> list[tuple[str, str]]:
        """Return (event type, code) of each dead letter."""
        with DeadLetterReader(self.broker, self.dead_letter_topic) as box:
            return [
                (orjson.loads(letter.value or b"{}")["tableName"], letter.error["code"])
                for letter in box.read_all()
            ]

    def beat(self) -> None:
        """Ignore the heartbeat."""

    wake = answered = following = progress = beat


@pytest.fixture
def rig(
    source: ClusterEndpoints, target: ClusterEndpoints, kafka: str, topic: str, written_source: Source
) -> Iterator[Rig]:
    broker = BrokerSettings(kafka)
    made = Topic(broker, TopicSettings(topic))
    made.ensure()
    replica = build_replica(
        source.metastore,
        target.metastore,
        db=written_source.db,
        target_db=f"{written_source.db}_{uuid.uuid4().hex[:6]}",
        roots=[source.warehouse, source.external, source.cmroot],
        start=written_source.before,
    )
    yield Rig(broker, made, replica)
    replica.projection.close()


def spoiled(record: Record, db: str) -> bytes:
    """Return the record's value, spoiled if its table is one of ``BAD``."""
    value = orjson.loads(record.value)
    bad = BAD.get(value["tableName"] or "") if value["dbName"] == db else None
    if bad is None or bad.kind != value["eventType"]:
        return record.value
    bad.change(value)
    return orjson.dumps(value)


def test_each_kind_of_bad_input_quarantines_its_table_and_nothing_else(
    rig: Rig, written_source: Source, target_sql: Session
) -> None:
    rig.produce([(record, spoiled(record, written_source.db)) for record in written_source.records])
    rig.follow(written_source.last)
    assert rig.replica.quarantined() == {table: bad.code for table, bad in BAD.items()}
    assert sorted(set(rig.letters())) == sorted(
        (table, bad.code) for table, bad in BAD.items() if bad.dead_letter
    )
    db = rig.replica.policy.target_db
    assert target_sql.rows(f"select id from {db}.fine order by id") == [("1",), ("2",)]
    assert [line for line in rig.replica.differences() if line.startswith("fine")] == []
    rows = "select (select count(*) from {db}.climbing), (select count(*) from {db}.outside)"
    assert target_sql.rows(rows.format(db=db)) == [("0", "0")], (
        "what is confined shows nothing of the bad event"
    )


def test_a_bad_record_without_a_table_loads_the_tables_that_it_may_have_changed(
    rig: Rig, written_source: Source
) -> None:
    values = [(record, record.value) for record in written_source.records]
    at = next(n for n, (record, _) in enumerate(values) if b'"eventType":"COMMIT_TXN"' in record.value)
    value = orjson.loads(values[at][1])
    value["message"] = {"txnid": "many"}
    values[at] = (values[at][0], orjson.dumps(value))
    rig.produce(values)
    rig.follow(written_source.last)
    assert [code for _, code in rig.letters()] == ["malformed-event"]
    assert {load.table for load in rig.replica.context.tables.loads.waiting()} == {*BAD, "fine"}
    SteppedLoads(rig.replica).finish()
    assert rig.replica.differences(files=False) == []
