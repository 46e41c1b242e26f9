"""The endpoint with TLS on real sockets, for its clients, for the metastore, or for both."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from daemon.endpoint.protocol.peer import Peer, client_context, server_context
from handlers.metastore.addresses import Address
from state.errors import ConfigError
from tests.builders.certificates import Certificate, a_certificate
from tests.builders.metastore.raw_metastore import TIMEOUT_S, RawClient, RawMetastore, call, names, reply
from tests.unit.daemon.endpoint.test_endpoint import endpoint, wait_until


LARGE = names("x" * 3_000_000)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return a_certificate(tmp_path_factory.mktemp("own"), "endpoint")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return a_certificate(tmp_path_factory.mktemp("other"), "other")


def secured(client: RawClient, authority: Path, own: Certificate | None = None) -> RawClient:
    context = ssl.create_default_context(cafile=str(authority))
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    client.handle = context.wrap_socket(client.handle, server_hostname="localhost")
    return client


def serving(own: Certificate, client_ca: Path | None = None) -> dict[str, Any]:
    return {"tls": server_context(own.certificate, own.key, client_ca)}


def accepting(own: Certificate) -> Callable[[Peer], None]:
    context = server_context(own.certificate, own.key, None)
    assert context is not None
    return partial(Peer.accept_tls, context=context, timeout_s=TIMEOUT_S)


def test_clients_with_tls_are_answered_while_the_metastore_has_none(own: Certificate) -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, **serving(own)) as (_, connect):
        metastore.will("a", reply("a"), reply("a", LARGE))
        client = secured(connect(), own.certificate)
        client.send(call("a") + call("a", LARGE))
        expected = reply("a") + reply("a", LARGE)
        assert client.receive(len(expected)) == expected
        assert metastore.requests == [call("a"), call("a", LARGE)]


def test_a_metastore_with_tls_is_reached_and_its_idle_connection_stays_open(own: Certificate) -> None:
    trusting = client_context(own.certificate, enabled=True)
    with (
        RawMetastore(begin=accepting(own)) as metastore,
        endpoint(metastore.port, metastore_tls=trusting) as (_, connect),
    ):
        metastore.will("a", reply("a", LARGE), reply("a"))
        client = connect()
        for expected in (reply("a", LARGE), reply("a")):
            client.send(call("a"))
            assert client.receive(len(expected)) == expected
        assert metastore.connections == 1


def test_a_metastore_whose_address_names_tls_is_reached_with_it(
    own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
    with RawMetastore(begin=accepting(own)) as metastore:
        address = Address.parse(f"thrift+tls://localhost:{metastore.port}")
        with endpoint(metastore.port, metastores=(address,)) as (_, connect):
            metastore.will("a", reply("a"))
            client = connect()
            client.send(call("a"))
            assert client.receive(len(reply("a"))) == reply("a")


def test_a_metastore_whose_certificate_is_not_trusted_is_not_used(
    own: Certificate, other: Certificate
) -> None:
    trusting = client_context(other.certificate, enabled=True)
    with (
        RawMetastore(begin=accepting(own)) as metastore,
        endpoint(metastore.port, metastore_tls=trusting) as (running, connect),
    ):
        client = connect()
        client.send(call("a"))
        assert b"cannot be reached" in client.receive_to_end()
        assert metastore.requests == []
        assert running.sample("errors_total", code="metastore-unavailable") == 1


def test_a_client_must_have_a_certificate_of_the_authority_if_one_is_set(
    own: Certificate, other: Certificate
) -> None:
    settings = serving(own, client_ca=other.certificate)
    with RawMetastore() as metastore, endpoint(metastore.port, **settings) as (running, connect):
        metastore.will("a", reply("a"))
        known = secured(connect(), own.certificate, other)
        known.send(call("a"))
        assert known.receive(len(reply("a"))) == reply("a")
        with pytest.raises(
            ssl.SSLError
        ):  # reported by the first read, since the handshake of TLS 1.3 ends earlier
            secured(connect(), own.certificate).handle.recv(1)
        assert metastore.requests == [call("a")]
        # The alert of TLS leaves before the error is counted.
        wait_until(lambda: running.sample("errors_total", code="bad-input") == 1)


def test_a_client_without_tls_is_disconnected_and_others_are_served(own: Certificate) -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, **serving(own)) as (_, connect):
        metastore.will("a", reply("a"))
        silent, plain = connect(), connect()
        plain.send(call("a"))
        plain.receive_to_end()
        client = secured(connect(), own.certificate)
        client.send(call("a"))
        assert client.receive(len(reply("a"))) == reply("a")
        assert metastore.requests == [call("a")]
        silent.handle.close()


def test_the_answer_of_a_call_in_progress_stays_encrypted_at_the_end(own: Certificate) -> None:
    with (
        RawMetastore() as metastore,
        endpoint(metastore.port, drain_s=20.0, **serving(own)) as (
            running,
            connect,
        ),
    ):
        client = secured(connect(), own.certificate)
        client.send(call("slow"))
        assert metastore.received.wait(TIMEOUT_S)
        closing = threading.Thread(target=running.server.close)
        closing.start()
        metastore.say(reply("slow"))
        assert client.receive(len(reply("slow"))) == reply("slow")
        closing.join(TIMEOUT_S)


def test_a_silent_client_is_disconnected_after_the_time_for_the_handshake(own: Certificate) -> None:
    settings = serving(own)
    with RawMetastore() as metastore, endpoint(metastore.port, connect_s=0.05, **settings) as (_, connect):
        assert connect().receive_to_end() == b""


def test_files_that_are_no_certificates_are_a_configuration_error(tmp_path: Path, own: Certificate) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("not a certificate")
    files = [(wrong, None, None), (tmp_path / "missing", None, None), (own.certificate, own.key, wrong)]
    for certificate, key, authority in [*files, (None, own.key, None)]:
        with pytest.raises(ConfigError):
            server_context(certificate, key, authority)
    with pytest.raises(ConfigError):
        client_context(wrong, enabled=True)
    assert server_context(None, None, None) is None
    assert client_context(None, enabled=False) is None
    assert client_context(None, enabled=True) is not None


def test_a_client_that_disappears_is_probed(own: Certificate) -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, **serving(own)) as (running, connect):
        metastore.will("a", reply("a"))
        client = secured(connect(), own.certificate)
        client.send(call("a"))
        client.receive(len(reply("a")))
        (session,) = running.server._running()  # noqa: SLF001 - no other sight of the server's socket
        handle = session._client.handle  # noqa: SLF001
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
