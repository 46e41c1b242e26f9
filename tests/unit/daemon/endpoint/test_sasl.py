"""SASL on real sockets: the negotiation passes through the endpoint, which then serves plain calls and passes
protected ones on."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable

import pytest

from daemon.endpoint.protocol.peer import Peer
from daemon.endpoint.protocol.sasl import read_exactly
from daemon.endpoint.protocol.streams import Transport
from tests.builders.metastore.raw_metastore import (
    TIMEOUT_S,
    RawClient,
    RawMetastore,
    call,
    closed_port,
    names,
    reply,
    unknown_method,
)
from tests.unit.daemon.endpoint.test_endpoint import endpoint


START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
FRAMED = Transport.FRAMED


def token(status: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BI", status, len(payload)) + payload


class Server:
    """The server's part of a negotiation: what it received, and what it answers to each response of the
    client."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.received: list[tuple[int, bytes]] = []

    def __call__(self, peer: Peer) -> None:
        self._receive(peer)
        for answer in self.answers:
            self._receive(peer)
            peer.send(answer, TIMEOUT_S)

    def _receive(self, peer: Peer) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        status, size = struct.unpack(">BI", read_exactly(peer, 5, deadline))
        self.received.append((status, read_exactly(peer, size, deadline)))


def negotiate(client: RawClient, answers: Iterable[bytes], mechanism: bytes = b"GSSAPI") -> None:
    client.send(token(START, mechanism) + token(OK, b"response 0"))
    for number, answer in enumerate(answers, 1):
        assert client.receive(len(answer)) == answer
        if answer[0] == OK:
            client.send(token(OK, b"response %d" % number))


def test_a_client_authenticates_itself_and_its_calls_are_served() -> None:
    answers = (token(OK, b"challenge"), token(OK, b""), token(COMPLETE, b"done"))
    server = Server(*answers)
    with RawMetastore(FRAMED, server) as metastore, endpoint(metastore.port) as (running, connect):
        table = b"\x0b\x00\x01\x00\x00\x00\x01t\x00"
        metastore.will("a", reply("a"))
        metastore.will("get_table", unknown_method("get_table"))
        metastore.will(
            "get_table_req", reply("get_table_req", b"\x0c\x00\x00\x0c\x00\x01" + table + b"\x00\x00")
        )
        client = connect()
        negotiate(client, answers)
        assert server.received == [
            (START, b"GSSAPI"),
            (OK, b"response 0"),
            (OK, b"response 1"),
            (OK, b"response 2"),
        ]
        for name, arguments, expected in (
            ("a", b"\x00", reply("a")),
            ("get_table", names("d", "t"), reply("get_table", b"\x0c\x00\x00" + table + b"\x00")),
        ):
            client.send(FRAMED.wrap(call(name, arguments)))
            assert client.receive(len(FRAMED.wrap(expected))) == FRAMED.wrap(expected)
        assert running.sample("sasl_connections_total") == 1
        assert running.sample("calls_translated_total", call="get_table") == 1


@pytest.mark.parametrize("status", [BAD, ERROR])
def test_a_client_that_the_metastore_refuses_gets_its_answer_and_is_disconnected(status: int) -> None:
    with (
        RawMetastore(FRAMED, Server(token(status, b"wrong password"))) as metastore,
        endpoint(metastore.port) as (running, connect),
    ):
        client = connect()
        client.send(token(START, b"PLAIN") + token(OK, b"\0user\0secret") + FRAMED.wrap(call("a")))
        assert client.receive_to_end() == token(status, b"wrong password")
        assert running.sample("sasl_connections_total") == 0
        assert metastore.requests == []


@pytest.mark.parametrize(
    "frame",
    [
        b"\x05\x04\x06\xff" + b"\x93" * 60,  # encrypted by Kerberos
        call("a") + b"\x17" * 10 + b"\x00\x01\x00\x00\x00\x00",  # signed by DIGEST-MD5
        b"\x01",
    ],
    ids=["encrypted", "signed", "short"],
)
def test_protected_calls_are_passed_through_in_both_directions(frame: bytes) -> None:
    def begin(peer: Peer) -> None:
        Server(token(COMPLETE))(peer)
        for _ in range(2):
            received = read_exactly(peer, len(FRAMED.wrap(frame)), time.monotonic() + TIMEOUT_S)
            peer.send(received[::-1], TIMEOUT_S)
        peer.close()

    with RawMetastore(FRAMED, begin) as metastore, endpoint(metastore.port) as (running, connect):
        client = connect()
        negotiate(client, [token(COMPLETE)])
        for _ in range(2):
            client.send(FRAMED.wrap(frame))
            assert client.receive(len(frame) + 4) == FRAMED.wrap(frame)[::-1]
        assert client.receive_to_end() == b""
        assert running.sample("sasl_connections_passed_through_total") == 1


def test_a_metastore_that_is_down_is_reported_in_the_negotiation() -> None:
    with endpoint(closed_port()) as (running, connect):
        client = connect()
        client.send(token(START, b"GSSAPI") + token(OK, b"ticket"))
        answer = client.receive_to_end()
        assert answer[0] == ERROR
        assert b"cannot be reached" in answer
        assert running.sample("errors_total", code="metastore-unavailable") == 1


@pytest.mark.parametrize(
    "data",
    [
        token(START, b"PLAIN") + b"\x09\x00\x00\x00\x00",
        token(START, b"PLAIN") + b"\x02\x7f\xff\xff\xff",
        token(START, b"PLAIN") + b"\x02\x00",
    ],
    ids=["status", "size", "incomplete"],
)
def test_a_malformed_negotiation_closes_the_connection(data: bytes) -> None:
    with (
        RawMetastore(FRAMED, Server(token(COMPLETE))) as metastore,
        endpoint(metastore.port, request_s=0.2) as (running, connect),
    ):
        client = connect()
        client.send(data)
        assert client.receive_to_end() == b""
        assert running.sample("sasl_connections_total") == 0
