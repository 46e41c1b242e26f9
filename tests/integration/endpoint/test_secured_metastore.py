"""A metastore of Hive 4.2 with TLS and passwords (SASL), and the endpoint between it and clients with TLS and
passwords."""

from __future__ import annotations

import json
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hmsclient import hmsclient
from hmsclient.genthrift.hive_metastore import ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport

from daemon.endpoint.freshness.event_id_query import EventIdQuery
from daemon.endpoint.settings import EndpointSettings
from dev.fixtures.hive_tables import a_table
from dev.stack import cli
from dev.stack.hive.servers import Metastore
from dev.stack.hive.settings import ClusterSettings
from handlers.metastore.addresses import Address, PasswordLogin, use_logins
from handlers.metastore.client import Metastore as Client
from handlers.structs.objects import Database
from state.errors import LoginFailed, MetastoreUnavailable
from tests.builders.certificates import Certificate, a_certificate
from tests.builders.components.availability import start_or_skip
from tests.builders.daemon.tideline_process import COMMAND, ended, running


STORE_PASSWORD = "changeit"  # noqa: S105 - of a keystore that exists during the test
USER, PASSWORD = "analyst", "correct horse"
TIMEOUT_S = 20.0
COMPLETE = 5


class SecuredMetastore(Metastore):
    """A metastore whose clients need TLS and a password."""

    authority: Path

    def check_ready(self) -> None:
        """Ready when it accepts a handshake."""
        open_tls(self.port, self.authority).close()


def open_tls(port: int, authority: Path) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(authority))
    handle = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    return context.wrap_socket(handle, server_hostname="localhost")


def log_in(handle: socket.socket, password: str) -> tuple[int, str]:
    """Authenticate as Thrift's clients do; return the status of the answer and its text."""
    response = f"\0{USER}\0{password}".encode()
    for status, payload in ((1, b"PLAIN"), (COMPLETE, response)):
        handle.sendall(struct.pack(">BI", status, len(payload)) + payload)
    reader = handle.makefile("rb")
    status, size = struct.unpack(">BI", reader.read(5))
    return status, reader.read(size).decode()


def hms(handle: socket.socket) -> Any:
    connection = TSocket()
    connection.setHandle(handle)
    return hmsclient.HMSClient(TBinaryProtocol(TFramedTransport(connection)))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return a_certificate(tmp_path_factory.mktemp("certificates"), "localhost")


PASSWORDS = {
    "metastore.execute.setugi": "false",
    "metastore.authentication": "CONFIG",
    "metastore.authentication.config.username": USER,
    "metastore.authentication.config.password": PASSWORD,
}


@contextmanager
def secured_metastore(directory: Path, own: Certificate, extra: dict[str, str]) -> Iterator[Metastore]:
    tls = {
        "metastore.use.SSL": "true",
        "metastore.keystore.type": "PKCS12",
        "metastore.keystore.path": str(own.keystore(directory / "keystore.p12", STORE_PASSWORD)),
        "metastore.keystore.password": STORE_PASSWORD,
    }
    with start_or_skip("metastore of Hive 4.2 with TLS"):
        cli.fetch_all()
        server = SecuredMetastore(directory, settings=ClusterSettings(extra=tls | extra))
        server.authority = own.certificate
        server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory, own: Certificate) -> Iterator[Metastore]:
    with secured_metastore(tmp_path_factory.mktemp("secured"), own, PASSWORDS) as server:
        yield server


@pytest.fixture(scope="module")
def endpoint(metastore: Metastore, own: Certificate) -> Iterator[int]:
    files = [
        "--tls-certificate",
        own.certificate,
        "--tls-key",
        own.key,
        "--metastore-tls-ca",
        own.certificate,
    ]
    command = [*COMMAND, "serve", "--metastore", metastore.uri, "--listen", "127.0.0.1:0", *map(str, files)]
    with running(command) as process:
        assert process.stdout is not None
        yield int(json.loads(process.stdout.readline())["listen"].rpartition(":")[2])
        assert "a session failed" not in ended(process)


@pytest.mark.long
def test_a_client_with_a_password_works_through_tls_on_both_sides(
    metastore: Metastore, endpoint: int, own: Certificate, database: str
) -> None:
    with (
        closing(open_tls(metastore.port, own.certificate)) as one,
        closing(open_tls(endpoint, own.certificate)) as two,
    ):
        assert log_in(one, PASSWORD) == log_in(two, PASSWORD) == (COMPLETE, "")
        direct, client = hms(one), hms(two)
        client.create_database(
            ttypes.Database(name=database, locationUri=f"file:{metastore.directory}/{database}")
        )
        assert client.get_database(database) == direct.get_database(database)
        assert client.get_database(database).ownerName == direct.get_database(database).ownerName
        with pytest.raises(ttypes.NoSuchObjectException):
            client.get_table(database, "missing")  # dropped by Hive 4.0.1, so translated
        client.drop_database(database, deleteData=True, cascade=False)


@pytest.mark.long
def test_the_metastores_refusal_of_a_password_reaches_the_client(
    metastore: Metastore, endpoint: int, own: Certificate
) -> None:
    with (
        closing(open_tls(metastore.port, own.certificate)) as one,
        closing(open_tls(endpoint, own.certificate)) as two,
    ):
        assert log_in(two, "wrong") == log_in(one, "wrong")
        assert two.recv(1) == b""


@pytest.mark.long
def test_tidelines_own_client_and_the_query_of_the_endpoint_log_in_with_a_password(
    metastore: Metastore, own: Certificate, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
    login, address = PasswordLogin(USER, PASSWORD), Address("localhost", metastore.port, tls=True)
    with own_login(metastore, login), closing(Client(str(address))) as client:
        before = client.current_event_id()
        location = f"file:{metastore.directory}/warehouse-{database}"
        client.create_database(Database(name=database, locationUri=location))
        client.create_table(a_table(database, "t", external=True))
        assert client.get_table(database, "t").tableName == "t"
        assert len(client.next_events(before, 10)) == 2
        query = EventIdQuery(EndpointSettings(metastores=(address,), login=login))
        with closing(query):
            query.send()
            assert query.receive() == client.current_event_id()


@pytest.mark.long
def test_a_wrong_password_is_a_failed_login_with_the_metastores_reason(
    metastore: Metastore, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
    with (
        own_login(metastore, PasswordLogin(USER, "wrong")),
        closing(Client(f"thrift+tls://localhost:{metastore.port}")) as client,
        pytest.raises(LoginFailed, match="refused the login"),
    ):
        client.current_event_id()


@contextmanager
def own_login(metastore: Metastore, login: PasswordLogin) -> Iterator[None]:
    use_logins({("localhost", metastore.port): login})
    yield
    use_logins({})


@pytest.mark.long
def test_tidelines_own_client_uses_a_metastore_with_tls(
    tmp_path: Path, own: Certificate, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
    with (
        secured_metastore(tmp_path, own, {}) as server,
        closing(Client(f"thrift+tls://localhost:{server.port}")) as client,
        closing(Client(f"thrift://localhost:{server.port}", timeout_s=5)) as plain,
    ):
        before = client.current_event_id()
        client.create_database(Database(name=database, locationUri=f"file:{tmp_path}/warehouse-{database}"))
        client.create_table(a_table(database, "t", external=True))
        events = client.next_events(before, 10)
        assert [event.eventType for event in events] == ["CREATE_DATABASE", "CREATE_TABLE"]
        assert client.get_table(database, "t").tableName == "t"
        with pytest.raises(MetastoreUnavailable):
            plain.current_event_id()
