"""The whole daemon between two Kerberized clusters: a replica, and an endpoint that answers from the
index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.endpoint.protocol.wire import Message
from dev.stack.hive.kerberized import HOST, WRITER, KerberizedStack
from handlers.metastore.addresses import Address, use_logins
from handlers.metastore.client import Metastore
from state.errors import AmbiguousCall
from tests.builders.endpoint.partition_requests import positional
from tests.builders.kerberos.secure_daemon import SecureDaemon, connect, login_of, require_equal_answers
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.small_workload import write_all


TABLES = ("bought", "orders", "visits", "plain")
DB = "shop"


@pytest.fixture(scope="module")
def secure(
    clusters: KerberizedStack, keytab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureDaemon]:
    """A daemon that follows ``DB`` from before its creation until after the small workload."""
    made = SecureDaemon.of(tmp_path_factory.mktemp("daemon"), clusters.endpoints(), DB, keytab)
    with made.daemon:
        yield made


@pytest.fixture(scope="module")
def written(secure: SecureDaemon, clusters: KerberizedStack, keytab: Path) -> int:
    """Write a workload of Hive's SQL with every kind of change; return its last event."""
    use_logins({(HOST, clusters.source.metastore.port): login_of(keytab)})
    secure.endpoint_when(lambda found: found.state == "following")
    with clusters.source.sql() as sql, closing(Metastore(clusters.source.metastore.uri)) as client:
        last = write_all(sql, client, DB).last
    secure.settle(last)
    return last


@pytest.mark.usefixtures("written")
def test_the_replica_has_the_rows_and_files_of_its_source(
    secure: SecureDaemon, clusters: KerberizedStack
) -> None:
    with clusters.source.sql(), clusters.target.sql():
        pass  # the engines start with their first session
    ours, theirs = clusters.source.engine.address, clusters.target.engine.address
    assert find_unequal_rows((ours, DB), (theirs, f"{DB}_r"), TABLES) == []
    verified = secure.daemon.command("verify", "shop", "--checksums")
    assert verified.returncode == 0, verified.stdout[-3000:]


def partition_calls() -> list[Message]:
    return [
        positional("get_partition_names", DB, "visits", -1),
        positional("get_partitions_by_filter", DB, "visits", "dt >= 'c'", -1),
        positional("get_num_partitions_by_filter", DB, "visits", "dt = 'a' or dt = 'd'"),
        positional("get_partitions", DB, "visits", -1),
        positional("get_partition", DB, "visits", ["a"]),
        positional("get_partitions_with_auth", DB, "visits", -1, "tideline", ["tideline"]),
    ]


def direct_address(clusters: KerberizedStack) -> Address:
    return Address(HOST, clusters.source.metastore.port)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("client", ["tideline", "writer"])
def test_the_endpoint_answers_clients_that_have_authenticated_themselves_as_the_metastore_does(
    secure: SecureDaemon, clusters: KerberizedStack, client: str, request: pytest.FixtureRequest
) -> None:
    keytabs = {"tideline": "keytab", "writer": "writer_keytab"}
    login = login_of(request.getfixturevalue(keytabs[client]), WRITER.replace("writer", client))
    before = secure.endpoint_when(lambda _: True)
    calls = partition_calls()
    require_equal_answers(direct_address(clusters), secure.address, login, calls)
    after = secure.endpoint_when(
        lambda now: now.answered - before.answered + now.not_answered - before.not_answered >= len(calls)
    )
    assert after.answered - before.answered == len(calls), after.reasons
    assert after.differing == ()


@pytest.mark.usefixtures("written")
def test_a_client_that_has_not_authenticated_itself_gets_no_answer_from_the_index(
    secure: SecureDaemon, keytab: Path
) -> None:
    before = secure.endpoint_when(lambda _: True).answered
    for call in partition_calls():
        client = connect(secure.address, None)
        with closing(client.peer), pytest.raises(AmbiguousCall):
            client.exchange(call)
    with closing((client := connect(secure.address, login_of(keytab))).peer):
        client.exchange(partition_calls()[0])
    assert secure.endpoint_when(lambda now: now.answered > before).answered == before + 1
