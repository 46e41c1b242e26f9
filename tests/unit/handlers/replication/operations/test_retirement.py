"""The end of a policy whose replica stays as it is."""

from __future__ import annotations

import pytest

from handlers.replication.operations.retirement import Retirement
from handlers.replication.target.fencing import RETIRED
from handlers.structs.objects import Database
from state.errors import ConfigError
from state.store.memory import MemoryStore
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import allocated, created


def source_parameters(replica: FakedReplica) -> dict[str, str]:
    return dict(replica.target.databases["shop"].parameters or {})


@pytest.mark.parametrize(
    ("before", "after"),
    [("shop", None), ("other, shop", "other"), ("shop,other", "other")],
)
def test_a_retired_policy_is_removed_from_the_source(
    replica: FakedReplica, before: str, after: str | None
) -> None:
    replica.target.databases["shop"] = Database(
        name="shop", parameters={"team": "a", "repl.source.for": before}
    )
    assert replica.projection.retire().unmarked
    expected = {"team": "a"} | ({} if after is None else {"repl.source.for": after})
    assert source_parameters(replica) == expected


@pytest.mark.parametrize("exists", [True, False])
def test_a_source_without_the_mark_is_not_changed(replica: FakedReplica, exists: bool) -> None:
    if exists:
        replica.target.databases["shop"] = Database(name="shop", parameters={"team": "a"})
    assert not replica.projection.retire().unmarked
    assert not exists or source_parameters(replica) == {"team": "a"}


def test_a_retired_policy_leaves_no_open_transaction_and_is_not_followed(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 2, 2)])
    done = Retirement("shop", aborted=2, unmarked=False)
    assert [replica.projection.retire(), replica.projection.retire()] == [done, done]
    assert replica.target.open_txns == []
    assert replica.parameters[RETIRED] == "shop"
    assert replica.projection.has_ended
    for store in (replica.store, MemoryStore()):
        with pytest.raises(ConfigError, match="retired"):
            replica.restart(store=store)


def test_a_replica_whose_database_is_gone_is_retired(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.target.databases.clear()
    assert replica.projection.retire() == Retirement("shop", aborted=0, unmarked=False)
