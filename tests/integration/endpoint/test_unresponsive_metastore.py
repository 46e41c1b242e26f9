"""What users of proxies for the metastore report as hangs,
with a real metastore behind an endpoint with an index.

A metastore that accepts connections and does not answer is stopped by a signal (ExpediaGroup/waggle-dance
#73). Many requests in a short time are the other report (#325); a listing of 100,000 partitions (#126) is in
the unit tests of the endpoint.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from thrift.transport.TTransport import TTransportException

from handlers.metastore.client import Metastore
from tests.builders.endpoint.served import Served, client_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hmsclient.hmsclient import HMSClient

    from dev.stack.hive.servers import Metastore as MetastoreServer


pytestmark = pytest.mark.long

ANSWER_S = 15
"""How long the endpoint waits for the metastore."""
HANGS_S = 240
"""A client that waits as long has been left waiting."""
CLIENTS, ROUNDS, FIRST_ROUNDS = 10, 400, 100
GROWTH_BYTES_MAX = 16 << 20


@contextmanager
def serving(server: MetastoreServer, kafka: str, directory: Path, **serve: object) -> Iterator[Served]:
    made = Served(server.uri, kafka, directory, **serve)
    made.start()
    try:
        with closing(Metastore([server.uri])) as metastore:
            made.add(metastore, "v1", "0")
        yield made
    finally:
        assert made.process is not None
        made.process.kill()
        made.process.wait(30)


@contextmanager
def stopped(server: MetastoreServer) -> Iterator[None]:
    """Let the metastore keep its connections, and accept others, without answering."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def is_disconnected(call: Callable[[], object]) -> bool:
    """Whether the endpoint ends the connection of a call, instead of leaving the client waiting."""
    with pytest.raises(TTransportException) as raised:
        call()
    return bool(raised.value.type == TTransportException.END_OF_FILE)


def test_clients_of_a_metastore_that_stops_answering_are_disconnected_and_work_again_afterwards(
    metastore: MetastoreServer, kafka: str, tmp_path: Path
) -> None:
    with serving(metastore, kafka, tmp_path, answer_s=ANSWER_S) as served:
        port, names = served.port, frozenset({"v1/0"})
        with client_of(port, HANGS_S) as indexed, client_of(port, HANGS_S) as forwarded:
            assert served.names(indexed) == names
            assert served.db in forwarded.get_all_databases()
            with stopped(metastore), client_of(port, HANGS_S) as late, ThreadPoolExecutor(3) as pool:
                calls = (
                    lambda: served.names(indexed),
                    forwarded.get_all_databases,
                    lambda: served.names(late),
                )
                assert all(pool.map(is_disconnected, calls))
        with closing(Metastore([metastore.uri])) as direct, client_of(port, HANGS_S) as client:
            served.add(direct, "v2", "0")
            assert served.names(client) == names | {"v2/0"}
            assert served.db in client.get_all_databases()
        assert served.endpoint_when(lambda _: True)["restarts"] == 0


def test_an_index_that_need_not_be_fresh_answers_while_the_metastore_does_not(
    metastore: MetastoreServer, kafka: str, tmp_path: Path
) -> None:
    with serving(metastore, kafka, tmp_path, answer_s=ANSWER_S, freshness="eventual") as served:
        port, names = served.port, frozenset({"v1/0"})
        with client_of(port, HANGS_S) as indexed, client_of(port, HANGS_S) as forwarded:
            while not served.endpoint_when(lambda _: True)["answered"]:
                served.names(indexed)  # forwarded until the index has passed the end of its first listing
            while served.names(indexed) != names:
                continue
            forwarded.get_all_databases()
            with stopped(metastore), ThreadPoolExecutor(1) as pool:
                ended = pool.submit(is_disconnected, forwarded.get_all_databases)
                answered = 0
                while not ended.done():
                    assert served.names(indexed) == names
                    answered += 1
                assert ended.result()
                assert answered > CLIENTS
            assert served.names(indexed) == names


def test_thousands_of_requests_of_many_clients_are_answered_without_errors_and_without_growing_memory(
    metastore: MetastoreServer, kafka: str, tmp_path: Path
) -> None:
    with serving(metastore, kafka, tmp_path, verify_ratio=0.001) as served:
        pid = served.endpoint_when(lambda _: True)["pid"]

        def ask(rounds: int) -> int:
            with client_of(served.port, HANGS_S) as client:
                return sum(answers(client) for _ in range(rounds))

        def answers(client: HMSClient) -> int:
            assert served.names(client) == {"v1/0"}  # from the index
            assert client.get_table(served.db, "t").tableName == "t"  # translated
            assert client.get_database(served.db).name == served.db  # forwarded
            return 3

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert sum(pool.map(ask, [FIRST_ROUNDS] * CLIENTS)) == 3 * FIRST_ROUNDS * CLIENTS
            before = resident_bytes(pid)
            assert sum(pool.map(ask, [ROUNDS] * CLIENTS)) == 3 * ROUNDS * CLIENTS
        assert resident_bytes(pid) - before < GROWTH_BYTES_MAX
        found = served.endpoint_when(lambda found: found["answered"] >= ROUNDS * CLIENTS)
        assert found["differing"] == []
        assert found["pid"] == pid


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
