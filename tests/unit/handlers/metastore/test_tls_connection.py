"""Tideline's own client on a metastore with TLS (``thrift+tls://``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest

from daemon.endpoint.protocol.peer import Peer, server_context
from daemon.endpoint.protocol.wire import Value, struct_value, text_value, write_struct
from handlers.metastore.addresses import Address
from handlers.metastore.client import Metastore
from state.errors import ConfigError, MetastoreUnavailable
from tests.builders.certificates import Certificate, a_certificate
from tests.builders.metastore.raw_metastore import TIMEOUT_S, Last, RawMetastore, reply


EVENT_ID = "get_current_notificationEventId"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return a_certificate(tmp_path_factory.mktemp("own"), "metastore")


@pytest.fixture
def metastore(own: Certificate) -> Iterator[RawMetastore]:
    context = server_context(own.certificate, own.key, None)
    assert context is not None
    with RawMetastore(begin=partial(Peer.accept_tls, context=context, timeout_s=TIMEOUT_S)) as made:
        version = write_struct([(0, text_value("4.2.0"))])
        made.will(
            "getVersion", reply("getVersion", version, sequence=0), reply("getVersion", version, sequence=0)
        )
        yield made


def newest(event_id: int) -> bytes:
    value = Value(10, event_id.to_bytes(8))
    return reply(EVENT_ID, write_struct([(0, struct_value([(1, value)]))]), sequence=0)


def client_of(metastore: RawMetastore) -> Metastore:
    return Metastore(f"thrift+tls://localhost:{metastore.port}")


def test_calls_are_answered_and_a_connection_that_the_server_closed_is_opened_again(
    metastore: RawMetastore, own: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(own.certificate))
    metastore.will(EVENT_ID, newest(5), Last(newest(6)), newest(7))
    with closing(client_of(metastore)) as client:
        assert [client.current_event_id() for _ in range(3)] == [5, 6, 7]
    assert metastore.connections == 2


def test_a_metastore_whose_certificate_is_not_trusted_is_not_used(metastore: RawMetastore) -> None:
    with closing(client_of(metastore)) as client, pytest.raises(MetastoreUnavailable, match="certificate"):
        client.current_event_id()
    assert metastore.requests == []


def test_addresses_name_tls_by_their_scheme() -> None:
    assert Address.parse("thrift+tls://host:1") == Address("host", 1, tls=True)
    assert str(Address.parse("thrift+tls://host")) == "thrift+tls://host:9083"
    assert not Address.parse("thrift://host").tls
    with pytest.raises(ConfigError):
        Address.parse("tls://host")
