"""Answers from the index in the daemon that follows a real metastore: none is older than its request, none stays wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from daemon.catalog.opening import CATALOG_VERSION
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack import cli
from dev.stack.hive.servers import Metastore as MetastoreServer
from dev.stack.hive.settings import Database as MetastoreDatabase
from dev.stack.servers.databases import DATABASE, HOST, PASSWORD, USER, PostgreSQL
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.errors import AmbiguousCall, Transient
from state.partitions.index.partition_index import PartitionIndex
from state.store.sqlite import SqliteStore
from tests.builders.components.availability import start_or_skip
from tests.builders.daemon.http_client import START_S, Api, asked, told_port
from tests.builders.daemon.loops import first_that
from tests.builders.daemon.tideline_process import COMMAND, kafka_settings, tideline, write_config
from tests.builders.endpoint.histories import History, Read, run_all, write


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = pytest.mark.long

WRITERS, CHANGES = 3, 20
ATTEMPTS = 10
VALUES = [f"v{number}" for number in range(4)]


class Served:
    """A table of the source, and a daemon with an endpoint in front of it."""

    def __init__(self, metastore: str, kafka: str, directory: Path) -> None:
        name = uuid.uuid4().hex[:12]
        self.db, self.directory, self.metastore = f"db_{name}", directory, metastore
        topic = f"topic-{name}"
        self.config = write_config(
            directory,
            {
                "sources": {"lake": {"metastore": [metastore], "topic": topic}},
                "catalog": {"lake": {"lens": False, "partitions": {"tables": [f"{self.db}.*"]}}},
                "kafka": kafka_settings(kafka, topic),
                "serve": {"lake": {"listen": "127.0.0.1:0", "wait_ms": 300, "verify_ratio": 1}},
            },
        )
        base = f"file:{directory}/{self.db}"
        self.table = a_table(self.db, "t", partition_keys=("ds", "w"), location=f"{base}/t")
        with closing(Metastore([self.metastore])) as client:
            client.create_database(Database(name=self.db, locationUri=base))
            client.create_table(self.table)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the daemon and wait until its endpoint answers from the index."""
        with (self.directory / "daemon.log").open("a") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "run", "-c", str(self.config)], stdout=log, stderr=subprocess.STDOUT, text=True
            )
        self.status_when(lambda status: status["projections"][0]["state"] == "following")
        tables = Api(self.directory / "state", "partitions")
        tables.until(f"{self.db}.t", lambda found: found["state"] == "following", names="true")

    def status_when(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first status for which ``condition`` holds, while the endpoint runs."""

        def status() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(
                asked(told_port(self.directory / "state"), "/api/v1/status").text
            )
            return found

        return first_that(
            lambda found: found["endpoints"][0]["listen"] and condition(found),
            status,
            OSError,
            ValueError,
            KeyError,
            IndexError,
            deadline_s=START_S,
        )

    @property
    def port(self) -> int:
        """The port of the endpoint."""
        listen: str = self.status_when(lambda _: True)["endpoints"][0]["listen"]
        return int(listen.rpartition(":")[2])

    def endpoint_when(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first row of the endpoint for which ``condition`` holds."""
        status = self.status_when(lambda found: condition(found["endpoints"][0]))
        row: dict[str, Any] = status["endpoints"][0]
        return row

    def names(self, client: HMSClient) -> frozenset[str]:
        """Return the values of all partitions, by their names."""
        listed = client.get_partition_names(self.db, "t", -1)
        return frozenset(name.replace("ds=", "").replace("w=", "") for name in listed)

    def read_names(self) -> frozenset[str]:
        """Return the same on a connection of its own."""
        with client_of(self.port) as client:
            return self.names(client)

    def filtered(self, client: HMSClient) -> frozenset[str]:
        """Return the values of all partitions, by a filter."""
        found = client.get_partitions_by_filter(self.db, "t", "ds like 'v%'", -1)
        return frozenset("/".join(one.values) for one in found)

    def stop(self) -> None:
        """Stop the daemon as an operator does."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0

    def lose(self, name: str) -> None:
        """Remove a partition from the index only, while no daemon runs."""
        path = self.directory / "state" / "catalog-lake.db"
        with closing(SqliteStore(path, schema_version=CATALOG_VERSION, snapshots=True)) as store:
            index = PartitionIndex(store)
            with store.transaction() as txn:
                change = index.change(txn)
                change.drop(f"{self.db}.t", [part.partition("=")[2] for part in name.split("/")])
            change.publish()

    def metrics(self) -> str:
        """Return the daemon's metrics."""
        return asked(told_port(self.directory / "state"), "/metrics").text

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the daemon, not to its child."""
        assert self.process is not None
        self.process.send_signal(number)

    def add(self, client: Metastore, *values: str) -> None:
        """Add a partition."""
        client.add_partitions(self.db, "t", [a_partition(self.table, *values)])


@contextmanager
def client_of(port: int) -> Iterator[HMSClient]:
    """Open a client of Hive 2.3 with a connection of its own."""
    transport = TBufferedTransport(TSocket("127.0.0.1", port))
    transport.open()
    with closing(transport):
        yield HMSClient(TBinaryProtocolAccelerated(transport))


@pytest.fixture(scope="module")
def concurrent_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreServer]:
    """A metastore on PostgreSQL, as in production: with Derby, concurrent drops deadlock for twenty seconds."""
    # PostgreSQL outside pytest's directory, which only root can read if root runs the tests.
    with (
        tempfile.TemporaryDirectory(prefix="tideline-", ignore_cleanup_errors=True) as directory,
        ExitStack() as stack,
    ):
        with start_or_skip("metastore on PostgreSQL"):
            server = stack.enter_context(PostgreSQL(Path(directory)))
            url = f"jdbc:postgresql://{HOST}:{server.port}/{DATABASE}"
            database = MetastoreDatabase.postgres(url, USER, PASSWORD)
            cli.fetch_all()
            metastore = MetastoreServer(tmp_path_factory.mktemp("metastore"), database=database)
            stack.callback(metastore.stop)
            metastore.start()
        yield metastore


@pytest.fixture(scope="module")
def served(
    concurrent_metastore: MetastoreServer, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A metastore that other tests do not fill: the catalog reads all its databases at the start."""
    made = Served(concurrent_metastore.uri, kafka, tmp_path_factory.mktemp("served"))
    made.start()
    yield made
    assert made.process is not None
    made.process.kill()
    made.process.wait(30)


def change_persistently(served: Served, client: Metastore, values: list[str], *, exists: bool) -> None:
    """Add or drop a partition, again where the metastore's database has chosen this call to end a deadlock."""
    for _ in range(ATTEMPTS):
        try:
            if exists:
                served.add(client, *values)
            else:
                client.drop_partition(served.db, "t", values, if_exists=True)
        except (Transient, AmbiguousCall) as error:
            failure = error
        else:
            return
    raise failure


def test_no_reader_misses_what_was_committed_before_its_call_although_the_follower_stands_still_in_between(
    served: Served,
) -> None:
    history, port = History(), served.port
    changed, running, lock = threading.Semaphore(0), [WRITERS], threading.Lock()

    def writer(number: int) -> None:
        with closing(Metastore([served.metastore])) as client:

            def change(value: str, exists: bool) -> None:
                change_persistently(served, client, value.split("/"), exists=exists)
                changed.release()

            try:
                write(history, [f"{value}/{number}" for value in VALUES], CHANGES, change, number)
            finally:
                with lock:
                    running[0] -= 1

    def reader(number: int) -> None:
        asked = frozenset(f"{value}/{writer}" for value in VALUES for writer in range(WRITERS))
        with client_of(port) as client:
            while running[0]:
                began_s = time.perf_counter()
                found = served.names(client) if number else served.filtered(client)
                history.reads.append(Read(asked, found, began_s, time.perf_counter()))

    def stop_the_follower() -> None:
        try:
            for send in (signal.SIGSTOP, signal.SIGCONT):
                assert all(changed.acquire(timeout=30) for _ in range(CHANGES)), "the writers have failed"
                served.send(send)
        finally:
            served.send(signal.SIGCONT)

    tasks = [partial(writer, number) for number in range(WRITERS)]
    run_all(history, *tasks, *(partial(reader, number) for number in range(3)), stop_the_follower)
    assert history.failures == []
    assert len(history.changes) == WRITERS * CHANGES
    assert len(history.reads) > 20
    assert history.violations() == []
    assert history.overlapping() > CHANGES, "the writers have worked at the same time"
    endpoint = served.endpoint_when(lambda found: found["not_answered"])
    assert endpoint["answered"] > 20
    assert dict(endpoint["reasons"])["not-fresh"] > 0, "the follower has stood still"
    assert endpoint["differing"] == []


def test_events_of_other_databases_do_not_make_the_index_old(served: Served) -> None:
    before = served.endpoint_when(lambda _: True)["not_answered"]
    with client_of(served.port) as client, closing(Metastore([served.metastore])) as other:
        for number in range(20):
            other.create_database(Database(name=f"{served.db}_{number}"))
            served.names(client)
            other.drop_database(f"{served.db}_{number}")
            served.names(client)
    assert served.endpoint_when(lambda found: found["answered"] >= 40)["not_answered"] == before


def test_a_killed_endpoint_is_started_again_and_harms_no_other_part(served: Served) -> None:
    before = served.endpoint_when(lambda _: True)
    os.kill(before["pid"], signal.SIGKILL)
    after = served.endpoint_when(lambda found: found["pid"] not in {None, before["pid"]})
    assert after["restarts"] > before["restarts"]
    served.read_names()
    status = served.status_when(lambda status: status["endpoints"][0]["answered"])
    assert status["projections"][0]["restarts"] == 0
    assert (
        'tideline_endpoint_calls_answered_total{call="get_partition_names",source="lake"}' in served.metrics()
    )


def test_a_table_whose_answers_differ_is_forwarded_until_it_is_loaded_again(served: Served) -> None:
    with closing(Metastore([served.metastore])) as metastore:
        served.add(metastore, "kept", "0")
        served.add(metastore, "lost", "0")
    served.read_names()  # the index has both
    served.stop()
    served.lose("ds=lost/w=0")
    served.start()
    served.read_names()
    [differing] = served.endpoint_when(lambda found: found["differing"])["differing"]
    assert differing["table"] == f"{served.db}.t"
    assert "lost/0" in served.read_names(), "the metastore's answer"
    [action] = served.status_when(lambda status: status["needs_operator"])["needs_operator"]
    assert action["kind"] == "differing-answers"
    done = tideline(served.config, *action["command"].split()[1:])
    assert done.returncode == 0, done.stderr
    answered = served.endpoint_when(lambda _: True)["answered"]
    assert "lost/0" in served.read_names()
    assert served.endpoint_when(lambda found: found["answered"] > answered)
    served.endpoint_when(lambda found: not found["differing"])
