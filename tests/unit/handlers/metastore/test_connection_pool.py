"""The connections that the clients of one metastore share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore import session
from handlers.metastore.connection_pool import ConnectionPool
from handlers.structs.notifications import CurrentNotificationEventId
from handlers.structs.objects import Database
from state.errors import ConfigError, MetastoreUnavailable
from tests.builders.metastore.fake_metastore import (
    Conversation,
    FakeMetastore,
    Reaction,
    fails,
    hangs_up,
    keeps_silent,
    returns,
)


Build = Callable[..., ConnectionPool]
ID = "get_current_notificationEventId"


@pytest.fixture
def server() -> Iterator[FakeMetastore]:
    with FakeMetastore() as fake:
        yield fake


@pytest.fixture
def build() -> Iterator[Build]:
    """Create pools whose connections are closed at the end of the test."""
    with ExitStack() as pools:

        def build(*uris: str, **options: Any) -> ConnectionPool:
            pool = ConnectionPool(uris, **options)
            pools.callback(pool.close_idle)
            return pool

        yield build


def client_of(pool: ConnectionPool, *, timeout_s: float = 5) -> WritingMetastore:
    return WritingMetastore(pool, timeout_s=timeout_s)


class Gate:
    """A reaction that answers once the test opens the gate."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()

    def reaction(self, then: Reaction) -> Reaction:
        def react(talk: Conversation) -> None:
            self.reached.release()
            assert self.opened.wait(30)
            then(talk)

        return react


def test_clients_of_a_pool_use_the_same_connection_one_after_the_other(
    server: FakeMetastore, build: Build
) -> None:
    pool = build(server.uri, connections_max=8)
    first = client_of(pool)
    clients = [first, client_of(pool), first.clone()]
    assert [client.current_event_id() for client in clients] == [7, 7, 7]
    assert len(server.connections) == 1
    assert server.calls == ["getVersion", ID, ID, ID], "the version is asked once for each connection"
    assert pool.count() == (0, 1), "none is held between calls"


def test_no_more_connections_are_opened_than_the_limit_and_no_caller_is_forgotten(
    server: FakeMetastore,
    build: Build,
) -> None:
    pool, gate, callers = build(server.uri, connections_max=2), Gate(), 6
    server.will(ID, *[gate.reaction(_answer)] * callers)
    with ThreadPoolExecutor(callers) as threads:
        answers = [threads.submit(client_of(pool).current_event_id) for _ in range(callers)]
        for _ in range(2):
            assert gate.reached.acquire(timeout=30)
        assert len(server.connections) == 2
        gate.opened.set()
        assert {answer.result(30) for answer in answers} == {7}
    assert len(server.connections) == 2
    assert pool.count() == (0, 2)


def test_a_caller_that_finds_all_connections_in_use_gives_up_at_its_deadline(
    server: FakeMetastore, build: Build
) -> None:
    pool = build(server.uri, connections_max=1)
    held = pool.take(time.monotonic() + 30)
    with pytest.raises(MetastoreUnavailable, match="remained in use") as full:
        client_of(pool, timeout_s=0.05).current_event_id()
    assert full.value.context["limit"] == 1
    pool.give(held)
    assert client_of(pool).current_event_id() == 7, "the one that gave up left the queue"


def test_a_metastore_that_hangs_holds_only_connections_of_its_own_pool(
    server: FakeMetastore, build: Build
) -> None:
    with FakeMetastore() as hanging:
        hanging.will(ID, keeps_silent)
        with pytest.raises(MetastoreUnavailable):
            client_of(build(hanging.uri, connections_max=1), timeout_s=0.05).current_event_id()
        assert client_of(build(server.uri, connections_max=1)).current_event_id() == 7


def test_a_guard_may_use_the_only_connection_of_the_pool_itself(server: FakeMetastore, build: Build) -> None:
    reader = client_of(pool := build(server.uri, connections_max=1))
    guarded = reader.clone(guard=lambda: None if reader.current_event_id() == 7 else pytest.fail("it reads"))
    guarded.alter_database("shop", Database(name="shop"))
    assert server.calls == ["getVersion", ID, "alter_database"]
    assert pool.count() == (0, 1)


def test_a_call_that_waited_for_its_connection_is_guarded_again(
    server: FakeMetastore, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def guard() -> None:
        asked.append(list(server.calls))
        if len(asked) == 2:
            monkeypatch.setattr(session, "GUARDED_S", 1_000_000)

    monkeypatch.setattr(session, "GUARDED_S", 0)
    client_of(build(server.uri, connections_max=1)).clone(guard=guard).alter_database(
        "shop", Database(name="shop")
    )
    assert asked == [["getVersion"]] * 2
    assert server.calls.count("alter_database") == 1


def test_a_guard_that_refuses_leaves_no_connection_in_use(server: FakeMetastore, build: Build) -> None:
    def refuse() -> None:
        raise PermissionError

    pool = build(server.uri, connections_max=1)
    with pytest.raises(PermissionError):
        client_of(pool).clone(guard=refuse).alter_database("shop", Database(name="shop"))
    assert pool.count() == (0, 1)
    assert "alter_database" not in server.calls


@pytest.mark.parametrize("reaction", [hangs_up, fails()])
def test_a_connection_that_failed_is_not_lent_again(
    server: FakeMetastore, build: Build, reaction: Reaction
) -> None:
    pool = build(server.uri, connections_max=1)
    client = client_of(pool)
    server.will("alter_database", reaction)
    with pytest.raises(Exception, match=r"not answered|internal error"):
        client.alter_database("shop", Database(name="shop"))
    assert pool.count() == (0, 0)
    assert client.current_event_id() == 7
    assert len(server.connections) == 2


def test_connections_that_the_server_closed_meanwhile_are_replaced(
    server: FakeMetastore, build: Build
) -> None:
    pool = build(server.uri, connections_max=4)
    client = client_of(pool)
    with ExitStack() as stack:
        for _ in range(3):
            stack.callback(pool.give, pool.take(time.monotonic() + 30))
    assert pool.count() == (0, 3)
    server.forget_connections()
    _wait_until_closed(pool)
    assert client.current_event_id() == 7
    assert pool.count() == (0, 1)


def _wait_until_closed(pool: ConnectionPool) -> None:
    for _, connection in pool._idle:
        while connection.is_open():
            time.sleep(0)


def test_connections_that_no_one_used_for_a_while_are_closed(server: FakeMetastore, build: Build) -> None:
    now_s = [0.0]
    pool = build(server.uri, idle_s=30, clock=lambda: now_s[0])
    held = [pool.take(time.monotonic() + 30) for _ in range(3)]
    for connection in held:
        pool.give(connection)
    now_s[0] = 20
    client_of(pool).current_event_id()
    assert pool.count() == (0, 3)
    now_s[0] = 40
    client_of(pool).current_event_id()
    assert pool.count() == (0, 1), "the one in use stays"
    assert [connection.is_closed for connection in held] == [True, True, False]


def test_an_address_that_is_down_is_tried_once_for_all_clients(server: FakeMetastore, build: Build) -> None:
    with FakeMetastore() as other:
        down = other.uri
    pool = build(down, server.uri)
    assert client_of(pool).current_event_id() == 7
    assert [str(address) for address in client_of(pool).addresses] == [server.uri, down]


def test_a_client_that_is_closed_leaves_the_pool_to_the_others(server: FakeMetastore, build: Build) -> None:
    pool = build(server.uri, connections_max=4)
    with client_of(pool) as client:
        client.current_event_id()
    assert pool.count() == (0, 1)
    pool.close_idle()
    assert pool.count() == (0, 0)
    assert client_of(pool).current_event_id() == 7, "it connects again"


def test_a_pool_needs_an_address() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        ConnectionPool([])


def _answer(talk: Conversation) -> None:
    returns(CurrentNotificationEventId(eventId=7))(talk)
