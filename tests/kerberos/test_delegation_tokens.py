"""Delegation tokens through an endpoint in front of a Kerberized metastore: their calls are forwarded, and
their holders log in."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from daemon.endpoint.protocol.wire import read_fields
from dev.stack.hive.kerberized import WRITER, KerberizedEngine, KerberizedStack
from dev.stack.servers.kerberos import Kdc
from handlers.metastore.addresses import Address, KerberosLogin, use_logins
from state.errors import LoginFailed
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.endpoint.partition_requests import positional
from tests.builders.kerberos.delegation_tokens import TokenClient, connect_with_token, write_token_file
from tests.builders.kerberos.secure_daemon import connect, login_of, running_engine


@pytest.fixture
def writer(writer_keytab: Path) -> KerberosLogin:
    return login_of(writer_keytab, WRITER)


@pytest.fixture
def token(through: Address, writer: KerberosLogin) -> str:
    """A token of the writer, obtained through the endpoint."""
    with closing(client_at(through, writer)) as client:
        return client.get_token("writer", "writer")


def client_at(address: Address, login: KerberosLogin) -> TokenClient:
    use_logins({(address.host, address.port): login})
    return TokenClient(str(address))


def test_a_token_is_obtained_renewed_and_cancelled_through_the_endpoint(
    through: Address, direct: Address, writer: KerberosLogin, token: str
) -> None:
    with closing(client_at(direct, writer)) as client:
        valid_until = client.renew_token(token)  # the metastore knows it
    with closing(client_at(through, writer)) as client:
        assert client.renew_token(token) >= valid_until
        client.cancel_token(token)
    for address in (through, direct):
        with pytest.raises(LoginFailed):
            connect_with_token(address, token)


def test_the_holder_of_a_token_logs_in_through_the_endpoint_and_is_the_user_of_the_token(
    through: Address, direct: Address, token: str
) -> None:
    call = positional("get_delegation_token", "tideline", "tideline")
    ours, theirs = connect_with_token(through, token), connect_with_token(direct, token)
    with closing(ours.peer), closing(theirs.peer):
        answer = ours.exchange(call)
        assert answer == theirs.exchange(call)
        assert b"User: writer" in answer.body, "the refusal names the user"


def test_answers_to_calls_about_tokens_have_the_bytes_of_the_metastore(
    through: Address, direct: Address, keytab: Path, token: str
) -> None:
    """Another user may neither renew nor cancel a token, nor obtain one in the owner's name."""
    calls = [
        positional("renew_delegation_token", token),
        positional("cancel_delegation_token", token),
        positional("get_delegation_token", "writer", "tideline"),
        positional("renew_delegation_token", "no token"),
    ]
    ours, theirs = connect(through, login_of(keytab)), connect(direct, login_of(keytab))
    with closing(ours.peer), closing(theirs.peer):
        for call in calls:
            answer = ours.exchange(call)
            assert answer == theirs.exchange(call)
            assert 0 not in read_fields(answer.body), "the metastore has refused the call"


def test_a_changed_token_is_refused(through: Address, token: str) -> None:
    changed = ("A" if token[12] != "A" else "B").join([token[:12], token[13:]])
    with pytest.raises(LoginFailed):
        connect_with_token(through, changed)


def test_hives_java_client_works_through_the_endpoint_with_a_token(  # noqa: PLR0913 - fixtures
    clusters: KerberizedStack,
    kdc: Kdc,
    endpoint: EndpointProcess,
    token: str,
    tmp_path: Path,
    database: str,
) -> None:
    before = endpoint.metric("sasl_connections_total")
    file = write_token_file(tmp_path / "token", token)
    engine = KerberizedEngine(clusters.source.metastore, kdc, metastore_uri=endpoint.uri, token_file=file)
    with running_engine(engine) as sql:
        sql.run(f"create database {database}")
        sql.run(
            f"create table {database}.t (id int) partitioned by (dt string) stored as orc "
            "tblproperties ('transactional'='true')"
        )
        sql.run(f"insert into {database}.t partition (dt) values (1,'a'),(2,'b')")
        sql.run(f"update {database}.t set id = 3 where dt = 'b'")
        assert sql.rows(f"select id from {database}.t where dt = 'b'") == [("3",)]
        sql.run(f"drop database {database} cascade")
    assert endpoint.metric("sasl_connections_total") > before
