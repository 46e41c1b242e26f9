"""What HBase is sent: messages, not rows, are what a load and a removal cost."""

from __future__ import annotations

from typing import Any

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.loads import steps
from handlers.hbase.store import HBaseStore
from tests.builders.catalog.indexed_source import Indexed


PARTITIONS = 1_500


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls sent to the gateway."""
    from thriftpy2.thrift import TClient

    sent: list[str] = []
    send = TClient._req

    def record(client: Any, name: str, *arguments: Any, **named: Any) -> Any:
        sent.append(name)
        return send(client, name, *arguments, **named)

    monkeypatch.setattr(TClient, "_req", record)
    return sent


def test_loading_a_table_costs_a_few_messages_for_each_piece_and_none_for_each_row(
    store: HBaseStore, messages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PIECE_MIN", steps.PIECE)  # on a busy machine too
    source = MemorySource()
    source.create("a")
    for number in range(PARTITIONS):
        source.add("a", f"{2000 + number // 300}-{1 + number // 25 % 12:02}-{1 + number % 25:02}", "x")
    indexed = Indexed(source, own=store)
    messages.clear()
    indexed.projection.load_all()
    assert indexed.follower.indexed.items() == [(f"{DB}.a", PARTITIONS)]
    assert len(messages) <= 80, f"{len(messages)} messages for {PARTITIONS} partitions"


def test_removing_a_range_reads_nothing_until_the_commit_and_then_keys_in_pages(
    store: HBaseStore, messages: list[str]
) -> None:
    with store.transaction() as txn:
        for number in range(9_000):
            txn.put(b"k%05d" % number, b"x" * 50)
    messages.clear()
    with store.transaction() as txn:
        txn.delete_range(b"k", b"l")
        assert len(messages) <= 1, "one message draws versions"
    scans = sum(name.startswith("scannerOpen") for name in messages)
    assert scans == 3, "9,000 keys in pages of 4,096"
    assert len(messages) <= 60, messages
    assert store.get(b"k00000") is None
