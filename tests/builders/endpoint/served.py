"""A daemon that indexes one database of a real metastore, with its endpoint as clients see it."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from daemon.catalog.opening import CATALOG_VERSION
from dev.fixtures.hive_tables import a_partition, a_table
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.partitions.index.partition_index import PartitionIndex
from state.store.sqlite import SqliteStore
from tests.builders.daemon.http_client import START_S, Api, asked, told_port
from tests.builders.daemon.loops import first_that
from tests.builders.daemon.tideline_process import COMMAND, kafka_settings, write_config


class Served:
    """A table of the source, and a daemon with an endpoint in front of it."""

    def __init__(self, metastore: str, kafka: str, directory: Path, **serve: object) -> None:
        """``serve``: further settings of the endpoint."""
        name = uuid.uuid4().hex[:12]
        self.db, self.directory, self.metastore = f"db_{name}", directory, metastore
        topic = f"topic-{name}"
        self.config = write_config(
            directory,
            {
                "sources": {"lake": {"metastore": [metastore], "topic": topic}},
                "catalog": {"lake": {"lens": False, "partitions": {"tables": [f"{self.db}.*"]}}},
                "kafka": kafka_settings(kafka, topic),
                "serve": {"lake": {"listen": "127.0.0.1:0", "wait_ms": 300, "verify_ratio": 1, **serve}},
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
def client_of(port: int, timeout_s: float | None = None) -> Iterator[HMSClient]:
    """Open a client of Hive 2.3 with a connection of its own."""
    connection = TSocket("127.0.0.1", port)
    if timeout_s is not None:
        connection.setTimeout(timeout_s * 1000)
    transport = TBufferedTransport(connection)
    transport.open()
    with closing(transport):
        yield HMSClient(TBinaryProtocolAccelerated(transport))
