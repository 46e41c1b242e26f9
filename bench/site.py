"""Measures the site of a large daemon, and thousands of clients that wait.

``page_100k_tables`` is the slowest page of a site with 300 policies, and with 100,000 tables each in a
policy, in the timelines and in the partition index of a source. The rows after it are the pages: for each,
the median of ``REPEATS`` answers over HTTP of the daemon's server in this process. The server's state is in
memory, and nothing is replicated.

Each of 10,000 clients waits, on its own connection, until a daemon's replica reflects the first event of the
next transaction. ``waits_10k`` is the time by which the last of them gets its answer later than a client that
waits alone. ``--quick`` has fewer tables and clients.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from bench.events.environment import make_name, open_stack, say, wait_for
from bench.events.writer import Writer
from bench.report import Row, main, row
from daemon.catalog.branch import OpenSource
from daemon.http.transport.server import HttpServer, bind
from daemon.partitions.answers import PartitionAnswers, PartitionsView
from daemon.partitions.pages import partition_pages
from daemon.process.descriptors import raise_limit
from daemon.replica.http.pages import PolicySite, policy_pages
from daemon.replica.known_tables import KnownTables, LastNames
from daemon.service.capabilities import all_sections
from daemon.site.routes import site_routes
from daemon.status.model import DaemonStatus, ProjectionView, SourceStatus
from daemon.status.routes import Views, status_routes
from daemon.timelines.answers import TimelineAnswers, TimelinesView
from daemon.timelines.pages import timeline_pages
from dev.demo.replicator import Replicator
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.endpoints import Endpoints
from handlers.catalog.following.ports import open_changes
from handlers.catalog.following.table_info import CreatedTable, PartitionInfo, PutPartition, TableInfo
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.metastore.client import Metastore
from handlers.replication.tables.policy_tables import PolicyTables
from state.store.memory import MemoryStore
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings


POLICIES: Final = 300
TABLES: Final = 100_000
QUICK_TABLES: Final = 2_000
CLIENTS: Final = 10_000
QUICK_CLIENTS: Final = 1_000
REPEATS: Final = 7
PAGE_MAX_MS: Final = 100
LAST_ANSWER_MAX_S: Final = 1
ANSWERED_S: Final = 120.0
ROUNDS_OF_ONE: Final = 9
ROUNDS_OF_ALL: Final = 3
EVENT_ID: Final = 1_234_567
DB: Final = "sales"
POLICY: Final = "db_007"
SOURCE: Final = "lake"
_STEP: Final = 61_803
"""Step between table numbers; it has no common factor with ``TABLES``."""
_SUCCESS: Final = b"HTTP/1.1 200"


def cases(quick: bool) -> Iterator[Row]:
    yield from measure_pages(QUICK_TABLES if quick else TABLES)
    with open_stack() as endpoints:
        yield from measure_waits(endpoints, QUICK_CLIENTS if quick else CLIENTS)


def measure_pages(tables: int) -> Iterator[Row]:
    """Request each page of a large site."""
    say(f"site: {tables} tables")
    pages, found_ms = list_pages(tables), {}
    with closing(HttpServer(build_site(tables), bind("127.0.0.1", 0))) as server:
        server.start()
        for name, path in pages.items():
            found_ms[name] = statistics.median(time_page_s(server.port, path) for _ in range(REPEATS)) * 1_000
    yield row("page_100k_tables", max(found_ms.values()), "ms", at_most=PAGE_MAX_MS)
    for name, value_ms in found_ms.items():
        yield row(f"page, {name}", value_ms, "ms")


def list_pages(tables: int) -> Mapping[str, str]:
    """Return the paths of the pages by their subjects."""
    last, table = tables // 50, f"{DB}.{name_table(tables // 2)}"
    where = urlencode({"where": "dt >= '2024-01-01' and region = 'eu'"})
    return {
        "overview": "/",
        "policies": "/policies",
        "policies, filtered": "/policies?filter=db_1",
        "policy": f"/policies/{POLICY}",
        "policy, last tables": f"/policies/{POLICY}?page={last}",
        "policy, filtered tables": f"/policies/{POLICY}?filter=99",
        "table of the policy": f"/policies/{POLICY}/tables/{name_table(7)}",
        "timelines": "/timelines",
        "timelines, filtered": "/timelines?filter=99",
        "timeline": f"/timelines/{quote(table)}",
        "partitions": "/partitions",
        "partitions, filtered": "/partitions?filter=99",
        "filter": f"/partitions/{quote(table)}?{where}",
        "actions": "/actions",
        "status as JSON": "/api/v1/status",
        "metrics": "/metrics",
    }


def time_page_s(port: int, path: str) -> float:
    """Return the time of an answer, from the connection to the last byte."""
    began_s = time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
    assert answer.status == http.client.OK, (path, answer.status, text[:300])
    return time.perf_counter() - began_s


def build_site(tables: int) -> Starlette:
    """Return the site of a daemon with ``POLICIES`` policies and with ``tables`` tables in each list."""
    views = tuple(
        ProjectionView(f"replication:db_{n:03}", SOURCE, "following", str(EVENT_ID), EVENT_ID, 0, 0.0)
        for n in range(POLICIES)
    )
    source = SourceStatus(SOURCE, EVENT_ID, EVENT_ID)
    status = DaemonStatus("0", "bench", 1, time.time(), time.time(), sources=(source,), projections=views)
    known = KnownTables(build_policy_tables(tables), None, LastNames())
    sections = all_sections()
    newest = {SOURCE: EVENT_ID}.get
    timelines = TimelinesView(
        event_id=EVENT_ID, waiting={}, quarantined={}, timelines=build_timelines(tables)
    )
    partitions = PartitionsView(
        event_id=EVENT_ID, waiting={}, quarantined={}, follower=build_index(tables), under_load={}
    )
    policies = PolicySite(lambda: status, sections, {POLICY: known}.get)
    routes = [
        *policy_pages(policies),
        *timeline_pages(TimelineAnswers([OpenSource(SOURCE, lambda: timelines)], newest)),
        *partition_pages(PartitionAnswers([OpenSource(SOURCE, lambda: partitions)], newest)),
        *status_routes(Views(lambda: status, tuple, CollectorRegistry(), 300, sections)),
    ]
    return Starlette(routes=site_routes(lambda: status, sections, routes, tuple, tuple))


def name_table(number: int) -> str:
    """Return the name of the table with this number. The order of names differs from the order of numbers."""
    return f"table_{number * _STEP % TABLES:06}"


class _NoObjects:
    """Implements ``handlers.replication.tables.policy_tables.TableObjects`` without storing objects."""

    def forget(self, name: str) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Do nothing."""


def build_policy_tables(tables: int) -> PolicyTables:
    """Return the tables of a policy, each with one committed write."""
    made = PolicyTables(POLICY, _NoObjects())
    for number in range(tables):
        made.write_ids.allocate(number + 1, f"{POLICY}.{name_table(number)}", 1, number + 1)
        made.write_ids.commit(number + 1)
    return made


def build_timelines(tables: int) -> Timelines:
    """Return timelines with a partition for each table."""
    made = Timelines()
    with MemoryStore().transaction() as txn:
        change = made.change(txn)
        for number in range(tables):
            name = f"{DB}.{name_table(number)}"
            change.follow(name, TableSettings(("dt",), ("dt",)))
            change.add(name, {"dt": "2024-01-01"})
        change.publish()
    return made


def build_index(tables: int) -> PartitionFollower:
    """Return a partition index with a partition for each table."""
    follower, store, keys = PartitionFollower(PartitionRules((f"{DB}.*",))), MemoryStore(), ("dt", "region")
    follower.open(store)
    with open_changes(store, [follower]) as (_, (change,)):
        for number in range(tables):
            table = a_table(DB, name_table(number), partition_keys=keys, location=f"file:/{number}")
            partition = a_partition(table, "2024-01-01", "eu")
            name, spec = f"{DB}.{table.tableName}", dict(zip(keys, partition.values, strict=True))
            change.apply(CreatedTable(TableInfo(name, keys, {}, table)))
            change.apply(PutPartition(name, PartitionInfo(spec, {}, partition)))
    return follower


def measure_waits(endpoints: Endpoints, clients: int) -> Iterator[Row]:
    """Measure how long one client, and many clients, wait for the next transaction."""
    raise_limit()
    db = make_name("waits")
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory,
        closing(Writer(endpoints.source.metastore, db)) as writer,
        Metastore(endpoints.source.metastore) as source,
    ):
        writer.create()
        replicator = Replicator(endpoints, Path(directory), db=db)
        replicator.config["http"] = {"port": 0, "waits_max": 2 * clients}
        replicator.prepare()
        try:
            replicator.start()
            wait_for(lambda: replicator.progress().behind == 0, "the daemon follows")
            one_s, all_s = (
                statistics.median(time_wait_s(replicator, writer, source, db, number) for _ in range(rounds))
                for number, rounds in ((1, ROUNDS_OF_ONE), (clients, ROUNDS_OF_ALL))
            )
        finally:
            replicator.stop()
    yield row("waits_10k", all_s - one_s, "s", at_most=LAST_ANSWER_MAX_S)
    yield row("transaction to the answer of one client", one_s, "s")


def time_wait_s(replicator: Replicator, writer: Writer, source: Metastore, db: str, clients: int) -> float:
    """Return the time from the begin of a transaction to the answer of the last client that waits for the
    transaction.
    """
    port = json.loads((replicator.directory / "state" / "http.json").read_text())["port"]
    event = source.current_event_id() + 1
    say(f"waits: {clients} clients wait for event {event}")
    with ExitStack() as held:
        waiting = [held.enter_context(request_wait(port, db, event)) for _ in range(clients)]
        wait_for(lambda: count_waits(replicator) == clients, "all clients wait")
        began_s = time.monotonic()
        writer.insert()
        return receive_answers(waiting) - began_s


def request_wait(port: int, policy: str, event: int) -> socket.socket:
    """Send the request of one client, and return its connection."""
    query = urlencode({"replica": policy, "event": event, "timeout_s": 240})
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(f"GET /api/v1/wait?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return connection


def count_waits(replicator: Replicator) -> int:
    """Return the number of waiting requests from the daemon's metrics."""
    lines = (replicator.get("/metrics") or b"").decode().splitlines()
    return sum(int(float(line.split()[1])) for line in lines if line.startswith("tideline_waits "))


def receive_answers(waiting: list[socket.socket]) -> float:
    """Return when the last client received its answer. Fails unless all answers are successes."""
    by_descriptor = {connection.fileno(): connection for connection in waiting}
    until_s = time.monotonic() + ANSWERED_S
    with closing(select.epoll()) as poll:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        while by_descriptor and time.monotonic() < until_s:
            for descriptor, _ in poll.poll(1.0):
                poll.unregister(descriptor)
                answer = by_descriptor.pop(descriptor).recv(4096)
                assert answer.startswith(_SUCCESS), answer
    assert not by_descriptor, f"{len(by_descriptor)} clients got no answer"
    return time.monotonic()


if __name__ == "__main__":
    main("site", cases)
