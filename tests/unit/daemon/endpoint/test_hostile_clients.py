"""Clients that connect and say nothing, too much or too little exhaust neither memory nor connections."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from daemon.endpoint.protocol.request_budget import FREE_BYTES, RequestBudget
from daemon.endpoint.protocol.sasl import MESSAGE_BYTES_MAX
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.server import RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES
from state.errors import LimitExceeded
from tests.builders.metastore.raw_metastore import TIMEOUT_S, RawClient, RawMetastore, call, names, reply
from tests.unit.daemon.endpoint.test_endpoint import endpoint, wait_until


MB = 1 << 20
SASL_START = b"\x01" + struct.pack(">I", 5) + b"PLAIN"


def answers(client: RawClient, name: str) -> None:
    client.send(call(name))
    assert client.receive(len(reply(name))) == reply(name)


def test_silent_clients_do_not_lock_out_others() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, connections_max=20) as (running, connect):
        silent = [connect() for _ in range(60)]
        metastore.will("a", reply("a"))
        answers(connect(), "a")
        assert running.sample("connections_refused_total") == 0
        assert running.sample("connections_replaced_total") == 41
        assert all(client.receive_to_end() == b"" for client in silent[:41])
        wait_until(lambda: running.sample("connections") == 20)


def test_half_sent_requests_do_not_lock_out_others() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, connections_max=5) as (running, connect):
        for _ in range(30):
            connect().send(call("a", names("x"))[:-3])
        metastore.will("a", reply("a"))
        answers(connect(), "a")
        assert running.sample("connections_refused_total") == 0


def test_one_address_cannot_use_all_connections() -> None:
    with (
        RawMetastore() as metastore,
        endpoint(metastore.port, connections_per_address_max=3) as (running, connect),
    ):
        for _ in range(9):
            connect()
        wait_until(lambda: running.sample("connections_replaced_total") == 6)
        wait_until(lambda: running.sample("connections") == 3)


def test_a_client_that_says_nothing_is_disconnected_soon_and_one_that_pauses_is_not() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port, first_byte_s=0.3) as (_, connect):
        metastore.will("a", reply("a"), reply("a"))
        active = connect()
        answers(active, "a")
        assert connect().receive_to_end() == b""
        answers(active, "a")


@pytest.mark.parametrize("size", [MESSAGE_BYTES_MAX + 1, 40 * MB, 2**31 - 1])
def test_a_message_of_a_negotiation_is_limited(size: int) -> None:
    begun = RawMetastore(Transport.FRAMED, begin=lambda peer: peer.receive(TIMEOUT_S))
    with begun as metastore, endpoint(metastore.port) as (running, connect):
        client = connect()
        client.send(SASL_START + b"\x02" + struct.pack(">I", size))
        assert client.receive_to_end() == b""
        assert running.sample("errors_total", code="limit-exceeded") == 1


@pytest.mark.parametrize("transport", list(Transport))
def test_unfinished_requests_of_many_clients_share_a_budget(transport: Transport) -> None:
    budget = 8 * MB
    with (
        RawMetastore(transport=transport) as metastore,
        endpoint(metastore.port, requests_bytes_max=budget, request_bytes_max=budget) as (running, connect),
    ):
        request = transport.wrap(call("b", names("x" * 7 * MB)))
        unfinished = [connect() for _ in range(6)]
        for number, client in enumerate(unfinished, 1):
            client.send(request[: 4 * MB])
            wait_until(
                lambda: running.sample("request_bytes") == min(number, 2) * (4 * MB - FREE_BYTES)  # noqa: B023
            )
            assert running.sample("requests_given_up_total") == max(0, number - 2)
        for client in unfinished[:4]:
            assert client.receive_to_end() == b""
        metastore.will("b", reply("b"))
        honest = connect()
        honest.send(request)
        expected = transport.wrap(reply("b"))
        assert honest.receive(len(expected)) == expected
        wait_until(lambda: running.sample("request_bytes") == 0)


def test_small_requests_are_served_while_the_budget_is_used_up() -> None:
    with (
        RawMetastore() as metastore,
        endpoint(metastore.port, requests_bytes_max=MB, request_bytes_max=4 * MB) as (running, connect),
    ):
        connect().send(call("unfinished", names("x" * (3 * MB // 4)))[:-3])
        wait_until(lambda: running.sample("request_bytes") > MB // 2)
        metastore.will("a", reply("a"))
        answers(connect(), "a")
        assert running.sample("requests_given_up_total") == 0


def test_complete_requests_are_kept_and_a_new_one_is_refused() -> None:
    aborted: list[str] = []
    budget = RequestBudget(MB)
    kept = budget.open(lambda: aborted.append("kept"))
    kept.grow(MB)
    kept.complete()
    refused = budget.open(lambda: aborted.append("refused"))
    with pytest.raises(LimitExceeded):
        refused.grow(FREE_BYTES + MB // 2)
    refused.release()
    small = budget.open(lambda: aborted.append("small"))
    small.grow(FREE_BYTES)
    assert aborted == []
    kept.release()
    refused.grow(MB)
    assert budget.used == MB - FREE_BYTES


def test_the_budget_is_exact_whatever_threads_do() -> None:
    budget = RequestBudget(4 * MB)

    def send() -> None:
        account = budget.open(lambda: None)
        for _ in range(200):
            try:
                for _ in range(8):
                    account.grow(100_000)
                    assert budget.used <= 4 * MB
                account.complete()
            except LimitExceeded:
                account.release()
                account = budget.open(lambda: None)
            account.release()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.used == 0


def test_buffers_of_the_kernel_do_not_grow_for_a_client_that_does_not_read() -> None:
    with RawMetastore() as metastore, endpoint(metastore.port) as (running, connect):
        metastore.will("a", reply("a"))
        answers(connect(), "a")
        (session,) = running.server._sessions
        handle = session._client.handle
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * SEND_BUFFER_BYTES
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * RECEIVE_BUFFER_BYTES
