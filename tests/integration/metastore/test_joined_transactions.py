"""What a real target does with calls that allocate for several transactions of the source, right and wrong
ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.replication.transactions.coming_events import WriteIdOfTxn
from state.errors import ServerFault
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.hive_write_ids import HiveWriteIds


@pytest.fixture
def table(client: WritingMetastore, db: str) -> str:
    client.create_table(a_table(db, "t", parameters=ACID))
    return f"{db}.t"


@pytest.fixture
def new_txns(
    client: WritingMetastore, policy: str, source_txn: Callable[[], int]
) -> Iterator[Callable[[int], list[int]]]:
    """Return unused ids of source transactions; those that were opened are aborted after the test."""
    used: list[int] = []

    def take(count: int) -> list[int]:
        taken = [source_txn() for _ in range(count)]
        used.extend(taken)
        return taken

    yield take
    for txn in used:
        client.abort_replayed(policy, txn)


NewTxns = Callable[[int], list[int]]


def highest(client: WritingMetastore, db: str) -> int:
    return client.highest_write_id(db, "t")


def open_all(client: WritingMetastore, policy: str, txns: list[int]) -> dict[int, int]:
    return {txn: client.open_replayed(policy, txn) for txn in txns}


def test_write_ids_are_allocated_by_one_call(
    client: WritingMetastore, policy: str, db: str, table: str, new_txns: NewTxns
) -> None:
    txns = new_txns(3)
    opened = open_all(client, policy, txns)
    pairs = [(txn, 5 + at) for at, txn in enumerate(txns)]
    expected = {opened[txn]: write_id for txn, write_id in pairs}
    assert client.allocate_many_replayed(policy, db, "t", pairs) == expected
    assert client.allocate_many_replayed(policy, db, "t", pairs) == expected, "repeated"
    assert [client.allocate_replayed(policy, db, "t", *pair) for pair in pairs] == [5, 6, 7]
    assert highest(client, db) == 7


def test_nothing_is_allocated_if_one_transaction_is_unknown_or_has_ended(
    client: WritingMetastore, policy: str, db: str, table: str, new_txns: NewTxns
) -> None:
    first, second, unknown = new_txns(3)
    open_all(client, policy, [first, second])
    assert client.allocate_many_replayed(policy, db, "t", [(first, 1), (unknown, 2)]) == {}
    client.abort_replayed(policy, second)
    assert client.allocate_many_replayed(policy, db, "t", [(first, 1), (second, 2)]) == {}
    assert highest(client, db) == 0


def test_a_partly_repeated_allocation_forgets_the_write_ids_of_other_open_transactions(
    client: WritingMetastore, policy: str, db: str, table: str, new_txns: NewTxns
) -> None:
    """Readers then count the files of an open transaction."""
    txns = new_txns(4)
    open_all(client, policy, txns)
    pairs = [(txn, 1 + at) for at, txn in enumerate(txns)]
    client.allocate_many_replayed(policy, db, "t", pairs[:3])
    client.allocate_many_replayed(policy, db, "t", pairs[1:])
    (found,) = client.valid_write_ids([table])
    assert 1 not in found.open
    assert found.state_of(1).value == "visible"


@pytest.mark.long
def test_a_partly_repeated_allocation_from_the_next_write_id_on_is_refused(
    client: WritingMetastore, policy: str, db: str, table: str, new_txns: NewTxns
) -> None:
    """The metastore tries it for twenty seconds, because its database reports a duplicate key."""
    txns = new_txns(2)
    open_all(client, policy, txns)
    client.allocate_many_replayed(policy, db, "t", [(txns[0], 1)])
    with pytest.raises(ServerFault):
        client.allocate_many_replayed(policy, db, "t", [(txns[0], 2), (txns[1], 3)])
    assert highest(client, db) == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_model_of_allocations_does_what_hive_does(  # noqa: PLR0913 - fixtures
    client: WritingMetastore, policy: str, db: str, table: str, new_txns: NewTxns, seed: int
) -> None:
    """Also with pairs out of order, with gaps, partly repeated, and in the order of transactions that were
    opened otherwise."""
    chance, model = random.Random(seed), HiveWriteIds()  # noqa: S311 - not for secrets
    txns = new_txns(6)
    for txn in chance.sample(txns, 5):
        client.open_replayed(policy, txn)
    for _ in range(10):
        chosen = chance.sample(txns, chance.randint(1, 4))
        first = chance.choice([model.next or 1, chance.randint(1, 9)])
        pairs = [WriteIdOfTxn(txn, first + at) for at, txn in enumerate(chosen)]
        if chance.random() < 0.3:
            chance.shuffle(pairs)
        expected = None
        with suppress(ServerFault):
            expected = model.allocate(pairs, client.replayed_txns(policy))
        if expected is not None:
            assert client.allocate_many_replayed(policy, db, "t", pairs) == dict(expected), pairs
            assert highest(client, db) == (model.next or 1) - 1


def test_an_unused_table_has_no_write_ids(client: WritingMetastore, db: str, table: str) -> None:
    assert client.valid_write_ids([table]) == [ValidWriteIds(table, 0)]
    assert highest(client, db) == 0
