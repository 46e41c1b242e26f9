"""Starting, stopping and killing of components, apart from the stack of the session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from dev.stack import cli, preflight
from dev.stack.cluster import HiveCluster
from dev.stack.errors import ComponentFailed, Missing, SqlFailed
from dev.stack.hive.servers import Metastore
from dev.stack.hive.settings import ClusterSettings
from dev.stack.process.component import Component, running_pid
from dev.stack.servers.kafka import Kafka


C = TypeVar("C", bound="Component")

OWNER = """
import sys, time
from pathlib import Path
from dev.stack.servers.kafka import Kafka
from dev.stack.process.owner_watch import OwnerWatch
directory = Path(sys.argv[1])
owner_watch = OwnerWatch(directory)
Kafka(directory / "kafka").start()
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True, scope="module")
def jars(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        preflight.check_all(tmp_path_factory.mktemp("preflight"))
    except Missing as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    cli.fetch_all()


@contextmanager
def running(component: C) -> Iterator[C]:
    try:
        component.start()
        yield component
    finally:
        component.stop()


@contextmanager
def client(metastore: Metastore) -> Iterator[ThriftHiveMetastore.Client]:
    transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", metastore.port))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
    finally:
        transport.close()


def create_database(metastore: Metastore, name: str) -> None:
    with client(metastore) as calls:
        calls.create_database(ttypes.Database(name=name, parameters={}))


def databases(metastore: Metastore) -> list[str]:
    with client(metastore) as calls:
        return list(calls.get_all_databases())


@pytest.mark.long
def test_a_metastore_keeps_data_log_and_port_over_restart_and_kill(tmp_path: Path) -> None:
    with running(Metastore(tmp_path)) as metastore:
        uri = metastore.uri
        create_database(metastore, "first")
        events = metastore.last_event_id()
        assert events >= 1
        metastore.restart()
        assert (metastore.uri, metastore.last_event_id()) == (uri, events)
        create_database(metastore, "second")
        metastore.kill()
        assert metastore.pid is None
        metastore.start()
        assert metastore.uri == uri
        assert {"first", "second"} <= set(databases(metastore))


@pytest.mark.long
def test_a_major_compaction_leaves_one_base_directory(tmp_path: Path) -> None:
    cluster = HiveCluster(tmp_path, ClusterSettings(compactor=True))
    with running(cluster.metastore), running(cluster.engine), cluster.sql() as session:
        session.run("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        for number in (1, 2):
            session.run(f"insert into t values ({number})")
        with client(cluster.metastore) as calls:
            calls.compact2(
                ttypes.CompactionRequest(dbname="default", tablename="t", type=ttypes.CompactionType.MAJOR)
            )
        deadline = time.monotonic() + 60
        table = cluster.metastore.layout.warehouse / "t"
        while [path.name.partition("_")[0] for path in table.iterdir()] != ["base"]:
            assert time.monotonic() < deadline, f"not compacted. {cluster.engine.log_tail()}"
            time.sleep(0.1)
        assert session.rows("select * from t order by id") == [("1",), ("2",)]


@pytest.mark.long
def test_a_session_outlives_its_metastore(tmp_path: Path) -> None:
    cluster = HiveCluster(tmp_path)
    with running(cluster.metastore), running(cluster.engine), cluster.sql() as session:
        session.run("create database kept")
        cluster.metastore.kill()
        with pytest.raises(SqlFailed):
            session.run("show databases")
        cluster.metastore.start()
        assert ("kept",) in session.rows("show databases")


def test_extra_settings_reach_the_metastore(tmp_path: Path) -> None:
    settings = ClusterSettings(messages="json", extra={"metastore.event.db.listener.timetolive": "1s"})
    with running(Metastore(tmp_path, settings=settings)) as metastore, client(metastore) as calls:
        assert calls.get_config_value("metastore.event.db.listener.timetolive", "unset") == "1s"
        calls.create_database(ttypes.Database(name="d", parameters={}))
        answer = calls.get_next_notification(ttypes.NotificationEventRequest(lastEvent=0, maxEvents=10))
    assert [event.messageFormat for event in answer.events] == ["json-0.2"]


@pytest.mark.long
def test_kafka_keeps_records_over_restart_and_kill(tmp_path: Path) -> None:
    with running(Kafka(tmp_path)) as kafka:
        bootstrap = kafka.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("kept", num_partitions=1, replication_factor=1)])["kept"].result(20)
        produce(bootstrap, b"one")
        kafka.restart()
        produce(bootstrap, b"two")
        kafka.kill()
        kafka.start()
        assert kafka.bootstrap == bootstrap
        assert consume(bootstrap, 2) == [b"one", b"two"]


def produce(bootstrap: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce("kept", value)
    assert producer.flush(30) == 0


def consume(bootstrap: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "stack", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    records = consumer.consume(count, 30)
    consumer.close()
    return [record.value() or b"" for record in records]


def test_a_component_that_cannot_start_raises_with_the_end_of_its_log(tmp_path: Path) -> None:
    broken = Kafka(tmp_path, extra={"process.roles": "nonsense"})
    with pytest.raises(ComponentFailed, match="nonsense"):
        broken.start()


def test_components_stop_when_their_owner_is_killed(tmp_path: Path) -> None:
    project = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path], cwd=project, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        pid_file = tmp_path / "kafka" / "kafka.pid"
        assert running_pid(pid_file) is not None
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while pid_file.exists():
        assert time.monotonic() < deadline, "the broker outlived its owner"
        time.sleep(0.05)
    assert running_pid(pid_file) is None
