"""Partitions that are kept in memory by their payloads: the same as made every time, and bounded."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from dev.fixtures.hive_tables import a_partition, a_table
from handlers.catalog.index.payload_reader import JoinedRows, PayloadReader
from handlers.catalog.index.payloads import (
    make_dictionary,
    normalize,
    pack,
    read_dictionary,
    store_dictionary,
)
from state.partitions.index.check_budget import AnswerBudget
from state.store.memory import MemoryStore


PAYLOADS = st.integers(0, 30).map(str).map(str.encode)


def whole(names: bytes, payload: bytes) -> bytes:
    return names + payload * 10


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.lists(PAYLOADS, max_size=8)), max_size=30))
def test_kept_partitions_are_those_that_would_be_made(reads: list[tuple[bytes, list[bytes]]]) -> None:
    rows = JoinedRows(bytes_max=3_000)
    for names, payloads in reads:
        expected = [whole(names, payload) for payload in payloads]
        assert rows.get_all(names, payloads, partial(whole, names)) == expected


def test_a_partition_that_is_read_again_and_again_is_made_once_and_others_are_forgotten() -> None:
    rows, made = JoinedRows(bytes_max=10_000), list[bytes]()

    def make(payload: bytes) -> bytes:
        made.append(payload)
        return payload * 10

    for number in range(1_000):
        rows.get_all(b"t", [b"often", str(number).encode()], make)
    assert made.count(b"often") == 1
    assert len(made) == 1_001
    rows.get_all(b"t", [b"0"], make)
    assert made.count(b"0") == 2


def test_one_call_of_a_large_table_keeps_no_more_than_the_limit() -> None:
    rows, made = JoinedRows(bytes_max=10_000), list[bytes]()

    def make(payload: bytes) -> bytes:
        made.append(payload)
        return payload * 10

    payloads = [str(number).encode() for number in range(1_000)]
    for _ in range(2):
        assert rows.get_all(b"t", payloads, make) == [payload * 10 for payload in payloads]
    assert len(made) >= 2_000 - 10_000 // 200, "an entry takes 200 bytes and its own"
    rows.get_all(b"t", payloads[-1:], make)
    assert len(made) <= 2_000, "the last ones are kept"


def test_a_partition_that_is_longer_than_half_the_limit_is_not_kept() -> None:
    rows, made = JoinedRows(bytes_max=10_000), list[bytes]()

    def make(payload: bytes) -> bytes:
        made.append(payload)
        return payload * (6_000 if payload == b"x" else 10)

    for _ in range(3):
        rows.get_all(b"t", [b"a", b"x"], make)
    assert made == [b"a", b"x", b"x", b"x"]


def test_a_renamed_table_has_its_new_name_in_partitions_that_were_read_before() -> None:
    table = a_table("db", "t", partition_keys=("dt",), location="/w/t")
    store = MemoryStore()
    with store.transaction() as txn:
        number = store_dictionary(txn, make_dictionary(table))
    payload = pack(normalize(a_partition(table, "2015-01-01")), number, read_dictionary(store, number))
    kept, fresh = PayloadReader(store, rows=JoinedRows()), PayloadReader(store)
    for name in ("t", "t", "renamed", "t", "renamed"):
        found = kept.at(store).join([payload], "db", name, AnswerBudget())
        assert b"".join(found) == b"".join(fresh.join([payload], "db", name, AnswerBudget()))
