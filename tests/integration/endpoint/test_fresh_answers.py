"""Answers from the index in the daemon that follows a real metastore: none is older than its request, none
stays wrong."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from dev.stack import cli
from dev.stack.hive.servers import Metastore as MetastoreServer
from dev.stack.hive.settings import Database as MetastoreDatabase
from dev.stack.servers.databases import DATABASE, HOST, PASSWORD, USER, PostgreSQL
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.errors import AmbiguousCall, Transient
from tests.builders.components.availability import start_or_skip
from tests.builders.daemon.tideline_process import tideline
from tests.builders.endpoint.histories import History, Read, run_all, write
from tests.builders.endpoint.served import Served, client_of


pytestmark = pytest.mark.long

WRITERS, CHANGES = 5, 30
ATTEMPTS = 10
STALE_READS = 100
"""How many answers are made, and compared, while the follower stands still."""
VALUES = [f"v{number}" for number in range(4)]


@pytest.fixture(scope="module")
def concurrent_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreServer]:
    """A metastore on PostgreSQL, as in production: with Derby, concurrent drops deadlock for twenty
    seconds."""
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
    """Add or drop a partition, again where the metastore's database has chosen this call to end a
    deadlock."""
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
    assert endpoint["repeated"] > 0, "some answers were repeated"
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


def test_a_stale_answer_that_the_freshness_permits_does_not_count_as_different(
    concurrent_metastore: MetastoreServer, kafka: str, tmp_path: Path
) -> None:
    served = Served(concurrent_metastore.uri, kafka, tmp_path, freshness="eventual")
    served.start()
    try:
        with client_of(served.port) as client, closing(Metastore([served.metastore])) as metastore:
            while not served.endpoint_when(lambda _: True)["answered"]:
                served.names(client)  # forwarded until the index has passed the end of its first listing
            before = served.endpoint_when(lambda _: True)["compared"]
            served.send(signal.SIGSTOP)
            served.add(metastore, "new", "0")
            for _ in range(STALE_READS):
                assert served.names(client) == frozenset()  # a differing table would be forwarded
                assert served.db in client.get_all_databases()
            served.send(signal.SIGCONT)
            found = served.endpoint_when(lambda row: row["compared"] > before)
            while not served.names(client):
                continue
        assert found["differing"] == []
    finally:
        served.send(signal.SIGCONT)
        served.stop()


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
