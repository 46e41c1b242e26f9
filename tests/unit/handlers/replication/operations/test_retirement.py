"""The end of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.replication.operations.retirement import Retirement, retire
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Database
from state.errors import ConfigError, NotFound
from state.store.memory import MemoryStore
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import allocated, created


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r")


def run(source: RecordingMetastore) -> Retirement:
    ends: Any = {
        "source": source,
        "target": RecordingMetastore({"supports": False, "get_database": NotFound("none")}),
    }
    return retire(**ends, policy=POLICY, store=MemoryStore())


@pytest.mark.parametrize(
    ("before", "after"),
    [("shop", None), ("other, shop", "other"), ("shop,other", "other")],
)
def test_a_retired_policy_is_removed_from_the_source(before: str, after: str | None) -> None:
    present = Database(name="shop", parameters={"team": "a", "repl.source.for": before})
    source = RecordingMetastore({"get_database": lambda _: present.copy()})
    assert run(source).unmarked
    written = source.only("alter_database").arguments[1].parameters
    assert written == {"team": "a"} | ({} if after is None else {"repl.source.for": after})


@pytest.mark.parametrize("present", [Database(name="shop", parameters=None), NotFound("there is none")])
def test_a_source_without_the_mark_is_not_changed(present: Database | NotFound) -> None:
    answer = present if isinstance(present, NotFound) else lambda _: present.copy()
    source = RecordingMetastore({"get_database": answer})
    assert not run(source).unmarked
    assert "alter_database" not in source.names()


def test_a_retired_policy_leaves_no_open_transaction_and_is_not_followed(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 2, 2)])
    source: Any = RecordingMetastore({"get_database": NotFound("dropped already")})
    target: Any = replica.target
    done = retire(source=source, target=target, policy=POLICY, store=replica.store)
    assert done == Retirement("shop", aborted=2, unmarked=False)
    assert replica.target.open_txns == []
    for store in (replica.store, MemoryStore()):
        with pytest.raises(ConfigError, match="retired"):
            replica.restart(store=store)
