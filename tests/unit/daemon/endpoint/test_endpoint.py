"""The endpoint on real sockets: what reaches the metastore and the client, byte for byte, and how failures
end."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hmsclient import hmsclient
from hmsclient.genthrift.hive_metastore import ttypes
from prometheus_client import CollectorRegistry

import handlers.metastore.objects.tables  # noqa: F401 - declares calls for the fake metastore
from daemon.endpoint.metrics import EndpointMetrics
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.protocol.wire import Header, read_fields, write_struct
from daemon.endpoint.server import EndpointServer
from daemon.endpoint.settings import EndpointSettings
from dev.fixtures.hive_tables import a_table
from handlers.metastore.addresses import Address
from handlers.structs.exceptions import NoSuchObjectException
from handlers.structs.table_requests import GetTableResult, GetTablesResult
from state.errors import ConfigError
from tests.builders.endpoint.partition_requests import texts
from tests.builders.metastore.fake_metastore import UNKNOWN_METHOD, FakeMetastore, fails, refuses, returns
from tests.builders.metastore.raw_metastore import (
    Last,
    RawClient,
    RawMetastore,
    call,
    clients,
    closed_port,
    names,
    reply,
    unknown_method,
)


DEADLINE_S = 20.0
IDLE = 300
PARTITIONS = 100_000
BOTH = pytest.mark.parametrize("transport", list(Transport))


class Running:
    """An endpoint in front of a metastore."""

    def __init__(self, metastore_port: int, **settings: Any) -> None:
        self.registry = CollectorRegistry()
        addresses = (Address("127.0.0.1", metastore_port),)
        own = {"metastores": addresses, "host": "127.0.0.1", "port": 0, "drain_s": 1.0}
        self.server = EndpointServer(EndpointSettings(**{**own, **settings}), EndpointMetrics(self.registry))
        self.port = self.server.port
        self.server.start()

    def sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"tideline_endpoint_{name}", labels) or 0.0


@contextmanager
def endpoint(metastore: int, **settings: Any) -> Iterator[tuple[Running, Callable[[], RawClient]]]:
    running = Running(metastore, **settings)
    with clients(running.port) as connect:
        try:
            yield running, connect
        finally:
            running.server.close()


@contextmanager
def hms(port: int) -> Iterator[Any]:
    with hmsclient.HMSClient(host="127.0.0.1", port=port) as client:
        yield client


BODIES = [
    b"\x00",
    names("shop", "visits"),
    b"\x0f\x00\x01\x0c\x00\x00\x00\x02\x08\x00\x07\x00\x00\x00\x05\x00\x00\x00",  # a list of two structs
    b"\x0d\x7f\xff\x0b\x0a\x00\x00\x00\x01\x00\x00\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x09\x00",  # a map
    names("x" * 300_000),
]


@BOTH
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_requests_and_answers_are_forwarded_byte_for_byte(
    transport: Transport, strict: bool, body: bytes
) -> None:
    request, answer = call("any_call", body, sequence=-3, strict=strict), reply("any_call", body, sequence=-3)
    with RawMetastore(transport) as metastore, endpoint(metastore.port) as (running, connect):
        metastore.will("any_call", answer, answer)
        client = connect()
        for _ in range(2):
            client.send(transport.wrap(request))
            assert client.receive(len(transport.wrap(answer))) == transport.wrap(answer)
        assert metastore.requests == [request, request]
        assert metastore.connections == 1
        assert running.sample("calls_translated_total", call="get_table") == 0


def test_a_request_may_arrive_byte_by_byte_and_several_in_one_piece() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        metastore.will("a", reply("a"), reply("a", names("two")), reply("a"))
        client = connect()
        for byte in call("a", names("x")):
            client.send(bytes([byte]))
        assert client.receive(len(reply("a"))) == reply("a")
        client.send(call("a") + call("a"))
        expected = reply("a", names("two")) + reply("a")
        assert client.receive(len(expected)) == expected


def test_an_oneway_call_is_forwarded_and_the_next_call_is_answered() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        metastore.will("a", reply("a"))
        client = connect()
        client.send(call("notice", kind=4) + call("shutdown") + call("a"))
        assert client.receive(len(reply("a"))) == reply("a")
        assert metastore.requests == [call("notice", kind=4), call("shutdown"), call("a")]


@BOTH
def test_a_dropped_call_is_tried_once_for_each_connection_and_then_translated(transport: Transport) -> None:
    table = (
        b"\x0b\x00\x01\x00\x00\x00\x01t\x0a\x01\x2c" + b"\x01" * 8 + b"\x00"
    )  # with a field of a future version
    result = reply("get_table_req", b"\x0c\x00\x00\x0c\x00\x01" + table + b"\x02\x00\x02\x01\x00\x00")
    with RawMetastore(transport) as metastore, endpoint(metastore.port) as (running, connect):
        metastore.will("get_table", unknown_method("get_table"))
        metastore.will("get_table_req", result, result)
        client = connect()
        expected = transport.wrap(reply("get_table", b"\x0c\x00\x00" + table + b"\x00"))
        for _ in range(2):
            client.send(transport.wrap(call("get_table", names("shop", "visits"))))
            assert client.receive(len(expected)) == expected
        request = call("get_table_req", b"\x0c\x00\x01" + names("shop", "visits") + b"\x00")
        assert metastore.requests == [call("get_table", names("shop", "visits")), request, request]
        assert running.sample("calls_translated_total", call="get_table") == 2


def test_a_metastore_that_has_the_call_answers_it_itself() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (running, connect):
        answer = reply("get_table", names("anything"))
        metastore.will("get_table", answer, answer)
        client = connect()
        for _ in range(2):
            client.send(call("get_table", names("shop", "visits")))
            assert client.receive(len(answer)) == answer
        assert metastore.requests == [call("get_table", names("shop", "visits"))] * 2
        assert running.sample("calls_translated_total", call="get_table") == 0


def test_a_database_of_a_catalog_is_named_as_the_successor_expects_it() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        metastore.will("get_table", unknown_method("get_table"))
        metastore.will("get_table_req", reply("get_table_req"))
        client = connect()
        client.send(call("get_table", names("@lake#shop", "visits")))
        assert client.receive(len(reply("get_table"))) == reply("get_table")
        arguments = read_fields(
            read_fields(metastore.requests[1][len(Header("get_table_req", 1, 7).to_bytes()) :])[1].data
        )
        assert {number: value.to_text() for number, value in arguments.items()} == {
            1: "shop",
            2: "visits",
            4: "lake",
        }


def test_a_generated_client_gets_tables_and_declared_exceptions() -> None:
    with FakeMetastore() as metastore, endpoint(metastore.server_address[1]) as (running, _):
        port = running.port
        metastore.will("get_table", fails(UNKNOWN_METHOD))
        metastore.will("get_table_objects_by_name", fails(UNKNOWN_METHOD))
        metastore.will(
            "get_table_req",
            returns(GetTableResult(table=a_table("d", "t"))),
            refuses(NoSuchObjectException(message="d.u table not found")),
        )
        metastore.will("get_table_objects_by_name_req", returns(GetTablesResult(tables=[a_table("d", "t")])))
        with hms(port) as client:
            assert client.get_table("d", "t").tableName == "t"
            with pytest.raises(ttypes.NoSuchObjectException, match=r"d\.u table not found"):
                client.get_table("d", "u")
            assert [table.tableName for table in client.get_table_objects_by_name("d", ["t"])] == ["t"]
            assert client.get_table_objects_by_name("d", []) == []


def test_index_calls_find_no_index_and_changes_are_refused() -> None:
    calls = (
        "get_indexes",
        "get_index_names",
        "get_index_by_name",
        "add_index",
        "alter_index",
        "drop_index_by_name",
    )
    with RawMetastore() as metastore, endpoint(metastore.port) as (running, _):
        for name in calls:
            metastore.will(name, unknown_method(name, sequence=0))
        with hms(running.port) as client:
            assert client.get_indexes("d", "t", 10) == []
            assert client.get_index_names("d", "t", 10) == []
            with pytest.raises(ttypes.NoSuchObjectException):
                client.get_index_by_name("d", "t", "i")
            with pytest.raises(ttypes.MetaException):
                client.add_index(ttypes.Index(), ttypes.Table())
            with pytest.raises(ttypes.MetaException):
                client.alter_index("d", "t", "i", ttypes.Index())
            with pytest.raises(ttypes.MetaException):
                client.drop_index_by_name("d", "t", "i", True)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
        b"\x80\x01\x00\x01\x7f\xff\xff\xff",  # a name of 2 GiB
        call("a", b"\x63\x00\x01\x00"),  # a type that does not exist
        call("a", b"\x0f\x00\x01\x63\x7f\xff\xff\xff\x00"),  # elements of a type that does not exist
        call("a", b"\x0b\x00\x01\xff\xff\xff\xff\x00"),  # a text of negative length
        call("a", b"\x0c\x00\x01" * 100_000),  # nested without end
        struct.pack(">I", 6) + call("abc"),  # a frame shorter than its message
    ],
    ids=["http", "tls", "name", "type", "elements", "negative", "nested", "frame"],
)
def test_a_malformed_request_closes_its_connection_and_never_reaches_the_metastore(data: bytes) -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (running, connect):
        other = connect()
        metastore.will("a", reply("a"), reply("a"))
        other.send(call("a"))
        assert other.receive(len(reply("a"))) == reply("a")
        client = connect()
        client.send(data)
        assert client.receive_to_end() == b""
        assert metastore.requests == [call("a")]
        other.send(call("a"))
        assert other.receive(len(reply("a"))) == reply("a")
        codes = ("bad-input", "limit-exceeded")
        assert sum(running.sample("errors_total", code=code) for code in codes) == 1


@BOTH
def test_a_request_above_the_limit_closes_its_connection_before_it_is_read(transport: Transport) -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, request_bytes_max=5000) as (running, connect):
        client = connect()
        client.send(transport.wrap(call("a", names("x" * 6000)))[:3000])
        assert client.receive_to_end() == b""
        assert metastore.requests == []
        assert running.sample("errors_total", code="limit-exceeded") == 1


def test_a_metastore_that_is_down_is_reported_as_an_exception() -> None:
    with endpoint(closed_port()) as (running, connect):
        client = connect()
        client.send(call("a", sequence=9))
        answer = client.receive_to_end()
        header = Header("a", 3, 9)
        assert answer.startswith(header.to_bytes())
        assert "cannot be reached" in read_fields(answer[len(header.to_bytes()) :])[1].to_text()
        assert running.sample("errors_total", code="metastore-unavailable") == 1


@pytest.mark.parametrize("answer", [b"", b"\x80\x01\x00\x02", reply("a")[:-1]])
def test_a_metastore_that_ends_within_a_call_closes_the_clients_connection(answer: bytes) -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (running, connect):
        metastore.will("a", Last(answer))
        client = connect()
        client.send(call("a"))
        assert client.receive_to_end() == answer
        assert running.sample("errors_total", code="ambiguous-call") == 1


def test_a_metastore_that_stays_silent_closes_the_clients_connection_in_time() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, answer_s=0.05) as (running, connect):
        client = connect()
        client.send(call("a"))
        assert client.receive_to_end() == b""
        assert running.sample("errors_total", code="ambiguous-call") == 1


def test_a_client_is_disconnected_when_its_idle_connection_to_the_metastore_ends() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        metastore.will("a", reply("a"))
        client = connect()
        client.send(call("a"))
        assert client.receive(len(reply("a"))) == reply("a")
        metastore.disconnect()
        assert client.receive_to_end() == b""


def test_an_idle_client_is_disconnected_after_the_limit() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, idle_s=0.05) as (running, connect):
        assert connect().receive_to_end() == b""
        assert running.sample("errors_total", code="client-gone") == 0


def test_a_request_that_stops_in_the_middle_is_disconnected_after_the_limit() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, request_s=0.05) as (_, connect):
        client = connect()
        client.send(call("a", names("x"))[:-3])
        assert client.receive_to_end() == b""
        assert metastore.requests == []


def test_a_client_that_closed_its_sending_half_still_gets_its_answer() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        metastore.will("a", reply("a"))
        client = connect()
        client.send(call("a"))
        client.handle.shutdown(socket.SHUT_WR)
        assert client.receive_to_end() == reply("a")


def test_connections_above_the_limit_are_closed_and_a_closed_one_makes_space() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, connections_max=1) as (running, connect):
        metastore.will("a", reply("a"), reply("a"))
        first = connect()
        first.send(call("a"))
        assert first.receive(len(reply("a"))) == reply("a")
        first.send(call("in progress"))
        wait_until(lambda: len(metastore.requests) == 2)
        assert running.sample("connections") == 1
        assert connect().receive_to_end() == b""
        assert running.sample("connections_refused_total") == 1
        metastore.say(reply("in progress"))
        assert first.receive(len(reply("in progress"))) == reply("in progress")
        first.handle.shutdown(socket.SHUT_WR)
        assert first.receive_to_end() == b""
        wait_until(lambda: running.sample("connections") == 0)
        again = connect()
        again.send(call("a"))
        assert again.receive(len(reply("a"))) == reply("a")


def test_many_clients_are_answered_while_others_wait_for_the_metastore() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        waiting = [connect() for _ in range(20)]
        for client in waiting:
            client.send(call("slow"))
        active = [connect() for _ in range(20)]
        for number, client in enumerate(active):
            metastore.will(f"c{number}", reply(f"c{number}"))
            client.send(call(f"c{number}"))
        for number, client in enumerate(active):
            expected = reply(f"c{number}")
            assert client.receive(len(expected)) == expected


def test_hundreds_of_idle_connections_do_not_keep_others_from_being_answered() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (running, connect):
        metastore.will("a", *[reply("a")] * (IDLE + 20))
        idle = [connect() for _ in range(IDLE)]
        for client in idle:
            client.send(call("a"))
            assert client.receive(len(reply("a"))) == reply("a")
        assert running.sample("connections") == IDLE
        for client in idle[::15]:
            client.send(call("a"))
            assert client.receive(len(reply("a"))) == reply("a")
        for client in idle:
            client.handle.close()
        wait_until(lambda: running.sample("connections") == 0)


def test_a_slow_reader_gets_a_large_answer_although_the_whole_takes_longer_than_the_limit() -> None:
    answer = reply("a", names("x" * 20_000_000))
    with RawMetastore() as metastore, endpoint(metastore.port, request_s=1.5) as (_, connect):
        metastore.will("a", answer)
        client = connect()
        client.send(call("a"))
        received, pause = 0, threading.Event()
        while received < len(answer):
            received += len(client.receive(min(1_000_000, len(answer) - received)))
            pause.wait(0.1)  # two seconds in total
        assert received == len(answer)


def test_a_listing_of_100_000_partitions_is_forwarded_while_other_clients_are_answered() -> None:
    """What users of another proxy report as a hang (ExpediaGroup/waggle-dance #126)."""
    partitions = texts(*(f"dt={number}".ljust(100, "x") for number in range(PARTITIONS)))
    listing = reply("a", write_struct([(0, partitions)]))
    with RawMetastore() as metastore, endpoint(metastore.port) as (_, connect):
        metastore.will("a", listing, listing)
        readers = [connect(), connect()]
        for reader in readers:
            reader.send(call("a"))
        other = connect()
        for reader in readers:
            assert reader.receive(len(listing) // 2) == listing[: len(listing) // 2]
            metastore.will("b", reply("b"))
            other.send(call("b"))
            assert other.receive(len(reply("b"))) == reply("b")
        for reader in readers:
            assert reader.receive(len(listing) - len(listing) // 2) == listing[len(listing) // 2 :]


def test_a_client_that_does_not_read_is_disconnected_after_the_limit() -> None:
    answer = reply("a", names("x" * 20_000_000))
    with RawMetastore() as metastore, endpoint(metastore.port, request_s=0.1) as (running, connect):
        metastore.will("a", answer)
        client = connect()
        client.send(call("a"))
        wait_until(lambda: running.sample("errors_total", code="client-gone") == 1)
        assert len(client.receive_to_end()) < len(answer)


def test_the_end_lets_calls_finish_and_closes_idle_connections() -> None:
    with RawMetastore() as metastore, clients(metastore.port):
        running = Running(metastore.port, drain_s=0.05)
        with clients(running.port) as connect:
            idle, busy = connect(), connect()
            busy.send(call("slow"))
            assert metastore.received.wait(DEADLINE_S)
            assert running.server.close() == 1
            assert idle.receive_to_end() == b""
            assert busy.receive_to_end() == b""


def test_an_address_in_use_is_a_configuration_error() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken, pytest.raises(ConfigError):
        Running(1, port=taken.getsockname()[1])


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does next."""
    pause = threading.Event()
    for _ in range(int(DEADLINE_S / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("the condition did not become true")
