"""The store over a real HBase: HBase does what the store relies on, and the store implements the port."""

from __future__ import annotations

import socket

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from dev.stack.servers.hbase import HBase
from handlers.hbase.gateway import Gateway, make_connector
from handlers.hbase.store import HBaseStore, open_store
from state.errors import HBaseUnavailable
from state.store import Store
from tests.builders.stores.gateway_contract import GatewayContract, put, value_of
from tests.builders.stores.store_machine import StoreMachine


HOST = "127.0.0.1"


class TestHBase(GatewayContract):
    """HBase keeps the contract that the fake keeps."""


def test_the_store_is_a_dictionary_with_transactions(
    store: HBaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state.store.pages.PAGE_KEYS", 2)

    class HBaseMachine(StoreMachine):
        def open(self) -> Store:
            with store.transaction() as txn:
                txn.delete_range(b"", None)
            return store

    some = settings(
        max_examples=5, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(HBaseMachine, settings=some)


def test_a_broken_connection_is_reopened(gateway: Gateway) -> None:
    put(gateway, b"a", b"1", 1)
    gateway._connection.transport.sock.shutdown(socket.SHUT_RDWR)
    assert value_of(gateway, b"a") == b"1"
    put(gateway, b"a", b"2", 2)
    assert gateway.reconnects == 1


def test_a_gateway_that_does_not_answer_in_time_is_unavailable(hbase_port: int, table: str) -> None:
    with pytest.raises(HBaseUnavailable):
        Gateway(make_connector(HOST, hbase_port, 0.001), table, "slow")


def test_two_stores_on_one_table_see_each_others_transactions(
    store: HBaseStore, hbase_port: int, table: str
) -> None:
    other = open_store(HOST, hbase_port, table, timeout_s=30)
    for number, (writer, reader) in enumerate([(store, other), (other, store)]):
        with writer.transaction() as txn:
            txn.put(b"%d" % number, b"x")
            assert reader.get(b"%d" % number) is None
        assert reader.get(b"%d" % number) == b"x"
    store.check()
    other.close()


def test_an_unavailable_gateway_is_reported_and_used_again_when_it_returns(
    hbase: HBase | None, store: HBaseStore
) -> None:
    if hbase is None:
        pytest.skip("the gateway of an HBase that was already running must not be stopped")
    with store.transaction() as txn:
        txn.put(b"k", b"before")
    hbase.gateway.kill()
    with pytest.raises(HBaseUnavailable), store.transaction() as txn:
        txn.put(b"k", b"lost")
    hbase.gateway.start()
    assert store.get(b"k") == b"before"
    with store.transaction() as txn:
        txn.put(b"k", b"after")
    assert store.get(b"k") == b"after"
