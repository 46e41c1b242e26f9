"""The guarantees of the store port, compared with a dictionary: the same steps for every store (HBase over a
fake connection)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from handlers.hbase.store import HBaseStore
from handlers.hbase.transaction import VALUE_BYTES_MAX as ON_HBASE
from state.errors import LimitExceeded
from state.store import KEY_BYTES_MAX, VALUE_BYTES_MAX, Store, prefix_end
from state.store.memory import MemoryStore
from state.store.pages import PAGE_KEYS
from state.store.sqlite import SqliteStore
from tests.builders.stores.fake_hbase import FakeHBase
from tests.builders.stores.store_machine import StoreMachine


class MemoryMachine(StoreMachine):
    def open(self) -> Store:
        return MemoryStore()


class SqliteMachine(StoreMachine):
    def open(self) -> Store:
        return SqliteStore(Path(self.folder.name, "state.db"), schema_version=1, durable=False)

    @precondition(lambda self: self.transaction is None)
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()


class HBaseMachine(StoreMachine):
    def open(self) -> Store:
        self.server = FakeHBase()
        return self.server.store()

    @precondition(lambda self: self.transaction is None)
    @rule()
    def reopen(self) -> None:
        self.store = self.server.store()


_SETTINGS = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two keys per page, so that every scan crosses pages."""
    monkeypatch.setattr("state.store.pages.PAGE_KEYS", 2)


@pytest.mark.usefixtures("_small_pages")
def test_the_memory_store_is_a_dictionary_with_transactions() -> None:
    run_state_machine_as_test(MemoryMachine, settings=_SETTINGS)


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("waiting", [2, 1_000])
def test_the_sqlite_store_is_a_dictionary_with_transactions_that_outlives_its_process(
    monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr("state.store.sqlite_transaction.WAITING_KEYS_MAX", waiting)
    run_state_machine_as_test(SqliteMachine, settings=_SETTINGS)


@pytest.mark.usefixtures("_small_pages")
def test_the_hbase_store_is_a_dictionary_with_transactions_that_outlives_its_process() -> None:
    run_state_machine_as_test(HBaseMachine, settings=_SETTINGS)


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda path: SqliteStore(path / "state.db", schema_version=1),
    "hbase": lambda _: FakeHBase().store(),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = STORES[request.param](tmp_path)
    yield opened
    opened.close()


def test_a_scan_over_several_pages_survives_writes_of_its_own_transaction(store: Store) -> None:
    count = PAGE_KEYS * 3 + 1
    with store.transaction() as transaction:
        for number in range(count):
            transaction.put(b"k%05d" % number, b"old")
        for seen, (key, _) in enumerate(transaction.scan(b"k", b"l")):
            assert key == b"k%05d" % seen
            transaction.put(key, b"new")
            transaction.put(b"j" + key, b"behind the scan")
    assert [value for _, value in store.scan(b"k", b"l", reverse=True)] == [b"new"] * count


@pytest.mark.parametrize("limit", [0, 1, PAGE_KEYS - 1, PAGE_KEYS, PAGE_KEYS + 1, PAGE_KEYS * 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_limit_is_kept_across_pages(store: Store, limit: int, reverse: bool) -> None:
    with store.transaction() as transaction:
        for number in range(PAGE_KEYS * 2 + 5):
            transaction.put(b"%05d" % number, b"")
    assert len(list(store.scan(b"", None, reverse=reverse, limit=limit))) == limit


def test_keys_and_values_of_maximum_length_are_accepted_and_longer_ones_refused(store: Store) -> None:
    value_bytes_max = ON_HBASE if isinstance(store, HBaseStore) else VALUE_BYTES_MAX
    with store.transaction() as transaction:
        transaction.put(b"k" * KEY_BYTES_MAX, b"v" * value_bytes_max)
        with pytest.raises(LimitExceeded):
            transaction.put(b"k" * (KEY_BYTES_MAX + 1), b"")
        with pytest.raises(LimitExceeded):
            transaction.put(b"k", b"v" * (value_bytes_max + 1))
        transaction.put(b"goes on", b"")
    assert [key for key, _ in store.scan(b"", None)] == [b"goes on", b"k" * KEY_BYTES_MAX]


def test_reading_the_store_during_a_transaction_of_the_same_thread_is_refused(store: Store) -> None:
    with store.transaction():
        with pytest.raises(AssertionError, match="open transaction"):
            store.get(b"k")
        with pytest.raises(AssertionError, match="open transaction"):
            next(store.scan(b"", None))
        with pytest.raises(AssertionError, match="already has an open"), store.transaction():
            pass


def test_a_transaction_cannot_be_used_after_its_end(store: Store) -> None:
    with store.transaction() as transaction:
        pass
    for use in (
        lambda: transaction.get(b"k"),
        lambda: transaction.put(b"k", b"v"),
        lambda: transaction.delete(b"k"),
        lambda: next(transaction.scan(b"", None)),
    ):
        with pytest.raises(AssertionError, match="over"):
            use()


def test_another_thread_waits_for_the_transaction_and_never_sees_half_of_it(store: Store) -> None:
    half_way, answers = threading.Event(), []

    def look() -> None:
        half_way.wait(10)
        answers.append(dict(store.scan(b"", None)))

    thread = threading.Thread(target=look)
    thread.start()
    with store.transaction() as transaction:
        transaction.put(b"a", b"1")
        half_way.set()
        thread.join(0.05)
        assert thread.is_alive()
        transaction.put(b"b", b"2")
    thread.join(10)
    assert answers == [{b"a": b"1", b"b": b"2"}]


def test_writers_of_several_threads_take_turns(store: Store) -> None:
    def add_often() -> None:
        for _ in range(25):
            with store.transaction() as transaction:
                count = int(transaction.get(b"count") or b"0")
                transaction.put(b"count", b"%d" % (count + 1))

    threads = [threading.Thread(target=add_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert store.get(b"count") == b"100"


@pytest.mark.parametrize(
    ("prefix", "end"), [(b"a", b"b"), (b"a\xff", b"b"), (b"\xff", None), (b"", None), (b"txn/", b"txn0")]
)
def test_the_end_of_a_prefix_is_the_first_key_after_all_keys_with_the_prefix(
    prefix: bytes, end: bytes | None
) -> None:
    assert prefix_end(prefix) == end
