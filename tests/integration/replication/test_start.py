"""How a policy starts: with its state, without it, and as a new policy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.projection import ReplicationProjection
from handlers.structs.objects import Database
from state.errors import ConfigError
from state.store.memory import MemoryStore
from tests.builders.replication.replica import Replica, build_replica


@pytest.fixture
def new(source: ClusterEndpoints, target: ClusterEndpoints, database: str) -> Iterator[Replica]:
    """A policy that was never bootstrapped."""
    built = build_replica(
        source.metastore, target.metastore, db=database, roots=[source.warehouse], start=False
    )
    yield built
    built.projection.close()


def test_the_error_of_a_policy_that_was_never_bootstrapped_contains_the_command(new: Replica) -> None:
    with pytest.raises(ConfigError) as caught:
        new.projection.open()
    assert f"tideline bootstrap {new.policy.name}" in caught.value.hint


def test_a_policy_that_bootstraps_itself_follows_from_the_newest_event(new: Replica) -> None:
    newest = new.source.current_event_id()
    projection = ReplicationProjection(
        source_name="test", context=new.context, store=new.store, bootstraps_itself=True
    )
    assert projection.open().event_id >= newest
    assert projection.open().event_id >= newest


def test_after_losing_its_state_file_a_policy_continues_from_the_targets_position(new: Replica) -> None:
    new.source.create_database(Database(name=new.policy.source_db))
    done = begin_bootstrap(source=new.source, target=new.target, policy=new.policy, store=MemoryStore())
    assert new.projection.open().event_id == done.event_id
