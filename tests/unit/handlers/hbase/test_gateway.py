"""The connection to HBase: what the fake has in common with HBase, and how errors are handled."""

from __future__ import annotations

import happybase  # creates the module of HBase's interface
import pytest
from Hbase_thrift import IllegalArgument
from Hbase_thrift import IOError as Failed
from thriftpy2.transport import TTransportException

from handlers.hbase.gateway import BYTES_MAX, ROWS_MAX, Gateway, make_connector
from state.errors import ConfigError, HBaseUnavailable, InvalidRequest, TidelineError
from tests.builders.stores.fake_hbase import FakeHBase
from tests.builders.stores.gateway_contract import GatewayContract


assert happybase.__version__


@pytest.fixture
def server() -> FakeHBase:
    return FakeHBase()


@pytest.fixture
def gateway(server: FakeHBase) -> Gateway:
    return server.gateway()


class TestFake(GatewayContract):
    """The fake fulfils the contract."""


def test_writes_are_sent_in_messages_of_bounded_size(server: FakeHBase, gateway: Gateway) -> None:
    value = bytes(BYTES_MAX // 2 - 100)
    before = server.messages
    gateway.put({b"%d" % number: {b"p:v": value} for number in range(4)}, 1)
    assert server.messages - before == 2, "two rows fit into one message"
    before = server.messages
    gateway.put({b"%d" % number: {b"p:v": value + bytes(200)} for number in range(4)}, 1)
    assert server.messages - before == 4, "two rows no longer fit into one message"
    before = server.messages
    gateway.put({b"%d" % number: {b"p:v": b""} for number in range(ROWS_MAX + 1)}, 1)
    assert server.messages - before == 2


BROKEN = [
    ConnectionResetError("reset"),
    TimeoutError("timed out"),
    EOFError(),
    TTransportException(TTransportException.END_OF_FILE, "read 0 bytes"),
    IllegalArgument(message=b"scanner ID is invalid"),
]


@pytest.mark.parametrize("failure", BROKEN, ids=lambda failure: type(failure).__name__)
def test_a_request_is_repeated_on_a_new_connection_when_the_first_breaks(
    server: FakeHBase, gateway: Gateway, failure: Exception
) -> None:
    gateway.put({b"a": {b"p:v": b"1"}}, 1)
    server.failures = [failure]
    assert set(gateway.rows([b"a"], [b"p:v"])) == {b"a"}
    assert gateway.reconnects == 1
    assert server.connections == 2


@pytest.mark.parametrize("failure", BROKEN[:4], ids=lambda failure: type(failure).__name__)
def test_a_second_failure_is_hbase_unavailable_and_the_next_request_opens_a_connection(
    server: FakeHBase, gateway: Gateway, failure: Exception
) -> None:
    server.failures = [failure, failure]
    with pytest.raises(HBaseUnavailable) as caught:
        gateway.rows([b"a"], [b"p:v"])
    assert caught.value.context["where"] == "fake:0"
    assert gateway.rows([b"a"], [b"p:v"]) == {}


def test_an_error_answered_by_hbase_is_not_retried(server: FakeHBase, gateway: Gateway) -> None:
    server.failures = [Failed(message=b"TableNotFoundException: index\n at Some.java:1")]
    with pytest.raises(HBaseUnavailable) as caught:
        gateway.rows([b"a"], [b"p:v"])
    assert caught.value.context["reason"] == "TableNotFoundException: index"
    assert gateway.reconnects == 0


def test_the_rest_of_an_interrupted_answer_is_not_read(server: FakeHBase, gateway: Gateway) -> None:
    server.failures = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        gateway.rows([b"a"], [b"p:v"])
    assert gateway.rows([b"a"], [b"p:v"]) == {}
    assert server.connections == 2


def test_a_repeated_refusal_is_an_invalid_request(server: FakeHBase, gateway: Gateway) -> None:
    server.failures = [IllegalArgument(message=b"no family x")] * 2
    with pytest.raises(InvalidRequest, match="no family x"):
        gateway.scan((b"a", b"b"), [b"x:v"], 1)


def test_a_port_without_a_listener_is_hbase_unavailable() -> None:
    with pytest.raises(TidelineError) as caught:
        Gateway(make_connector("127.0.0.1", 1, 1.0), "index", "127.0.0.1:1")
    assert caught.value.code == "hbase-unavailable"


def test_the_table_is_created_once(server: FakeHBase) -> None:
    first = server.gateway()
    first.put({b"a": {b"p:v": b"1"}}, 1)
    assert set(server.gateway().rows([b"a"], [b"p:v"])) == {b"a"}
    assert set(server.tables) == {"index"}


def test_without_happybase_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handlers.hbase.gateway.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"tideline\[hbase\]"):
        make_connector("127.0.0.1", 9090, 1.0)
