"""Streams of small transactions: what each costs the target's metastore, and what a policy repeats that lost
its state within one."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from bench.events.writer import Writer
from handlers.metastore.client import Metastore
from handlers.replication.projection import ReplicationProjection
from state.store.memory import MemoryStore
from tests.builders.replication.replica import build_replica


if TYPE_CHECKING:
    import pytest

    from dev.stack.endpoints import ClusterEndpoints
    from tests.builders.replication.replica import Replica


COMMITS = 20
ALLOCATIONS_MAX = 4
"""One for eight commits or more, and some for the last ones if these are fewer."""
OTHER_CALLS_MAX = 12
"""Calls that all commits of a batch share, and checks of the target database that depend on the time."""


def write_inserts(source: ClusterEndpoints, db: str, count: int, *, create: bool = True) -> None:
    with closing(Writer(source.metastore, db)) as writer:
        if create:
            writer.create()
        for _ in range(count):
            writer.insert()


def count_calls(monkeypatch: pytest.MonkeyPatch, target: ClusterEndpoints) -> Counter[str]:
    """Count the calls of all clients of the target by name."""
    counts: Counter[str] = Counter()
    invoke = Metastore._invoke

    def count(self: Metastore, call: Any, *arguments: Any) -> Any:
        if [str(address) for address in self.addresses] == [target.metastore]:
            counts[call.name] += 1
        return invoke(self, call, *arguments)

    monkeypatch.setattr(Metastore, "_invoke", count)
    return counts


def freeze_position(replica: Replica) -> None:
    """Let the time stand still for the projection, so that the target's position is not raised within a
    batch."""
    replica.projection = ReplicationProjection(
        source_name="test", context=replica.context, store=replica.store, clock=lambda: 0.0
    )


def test_small_commits_of_a_batch_cost_the_target_two_calls_each_and_share_all_others(
    replica: Replica, source: ClusterEndpoints, target: ClusterEndpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze_position(replica)
    position = replica.projection.open()
    write_inserts(source, replica.policy.source_db, COMMITS + 1)
    events = replica.events(position.event_id)
    first = next(
        n
        for n, event in enumerate(events, 1)
        if event.kind == "WRITE" and event.db == replica.policy.source_db
    )
    first += 1  # its commit
    replica.projection.apply(events[:first])
    counts = count_calls(monkeypatch, target)
    replica.projection.apply(events[first:])
    assert counts["commit_txn"] == COMMITS
    assert counts["open_txns"] == COMMITS
    assert counts["allocate_table_write_ids"] <= ALLOCATIONS_MAX, "many share one"
    assert counts["get_valid_write_ids"] == 1, "one proof for all"
    assert counts.total() - 2 * COMMITS - counts["get_database"] <= OTHER_CALLS_MAX, counts
    replica.projection.settle()
    assert replica.differences() == []


def test_a_policy_that_loses_its_state_within_a_stream_of_commits_repeats_none_of_them(
    replica: Replica, source: ClusterEndpoints, target: ClusterEndpoints
) -> None:
    """The target's position is behind all of them: a transaction that is opened again after its end would
    damage the table."""
    freeze_position(replica)
    position = replica.projection.open()
    db = replica.policy.source_db
    write_inserts(source, db, 5)
    replica.projection.apply(replica.events(position.event_id))
    again = build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, source.external, source.cmroot],
        store=MemoryStore(),
        start=False,
    )
    with closing(again.projection):
        position = again.projection.open()
        write_inserts(source, db, 2, create=False)
        repeated = again.events(position.event_id)
        assert sum(event.kind == "WRITE" and event.db == db for event in repeated) == 7
        again.projection.apply(repeated)
        again.projection.settle()
        assert again.quarantined() == {}
        assert again.differences() == []
        assert again.target.replayed_txns(again.policy.txn_map_key) == {}
        name = f"{again.policy.target_db}.t"
        assert again.target.highest_write_id(again.policy.target_db, "t") == 7
        assert again.target.valid_write_ids([name])[0].open == ()
