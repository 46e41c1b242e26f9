"""Bootstrap: its order, what it writes on both sides, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.replication.loading.bootstrap import BootstrapResult, begin_bootstrap, is_pending
from handlers.replication.policy.policy import Policy
from handlers.replication.tables.table_loads import TableLoads
from handlers.structs.objects import Database
from state.errors import AlreadyExists, NotFound, TargetDiverged
from state.event_log.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r", exclude=("tmp_*",))
MISSING = NotFound("there is none")


def a_source(**answers: Any) -> RecordingMetastore:
    present = Database(name="shop", parameters={"team": "a", "repl.source.for": "other"})
    return RecordingMetastore(
        {"current_event_id": 7, "get_database": lambda _: present.copy(), "table_names": [], **answers}
    )


def a_target(**answers: Any) -> RecordingMetastore:
    return RecordingMetastore({"get_database": MISSING, "table_names": [], **answers})


def run(
    source: RecordingMetastore, target: RecordingMetastore, store: MemoryStore | None = None
) -> BootstrapResult:
    metastores: Any = {"source": source, "target": target}
    return begin_bootstrap(**metastores, policy=POLICY, store=store or MemoryStore())


def test_a_new_policy_starts_after_the_sources_current_event() -> None:
    store = MemoryStore()
    assert run(a_source(), a_target(), store) == BootstrapResult("shop", 7, repeated=False)
    stored = store.get(POSITION_KEY)
    assert stored is not None
    assert Position.from_bytes(stored) == Position(7)


def test_the_event_id_is_read_before_the_database_is_examined() -> None:
    source = a_source()
    run(source, a_target())
    assert source.names()[:3] == ["current_event_id", "get_database", "table_names"]


def test_a_repeated_bootstrap_changes_nothing_and_says_so() -> None:
    store = MemoryStore()
    run(a_source(), a_target(), store)
    source, target = a_source(current_event_id=9), a_target()
    assert run(source, target, store) == BootstrapResult("shop", 7, repeated=True)
    assert source.calls == target.calls == []


def test_the_source_database_is_marked_beside_other_marks() -> None:
    source = a_source()
    run(source, a_target())
    name, database = source.only("alter_database").arguments
    assert (name, database.parameters) == ("shop", {"team": "a", "repl.source.for": "other,shop"})


def test_a_mark_of_this_policy_is_not_written_again() -> None:
    marked = Database(name="shop", parameters={"repl.source.for": " other , shop "})
    source = a_source(get_database=lambda _: marked.copy())
    run(source, a_target())
    assert "alter_database" not in source.names()


def test_the_target_database_is_created_as_a_replica_with_its_position() -> None:
    target = a_target()
    run(a_source(), target)
    (database,) = target.only("create_database").arguments
    assert database.name == "shop_r"
    assert database.parameters == {"team": "a", "repl.target.for": "true", "repl.last.id": "7"}


@pytest.mark.parametrize(
    "source", [a_source(), a_source(get_database=MISSING)], ids=["source exists", "source missing"]
)
def test_an_empty_target_database_is_taken_over(source: RecordingMetastore) -> None:
    """An id that an earlier replica left there would hide events."""
    left = Database(name="shop_r", parameters={"repl.last.id": "99", "x": "y"})
    target = a_target(get_database=lambda _: left.copy(), create_database=AlreadyExists("there is one"))
    run(source, target)
    name, database = target.only("alter_database").arguments
    assert name == "shop_r"
    assert database.parameters == {"repl.last.id": "7", "repl.target.for": "true", "x": "y"}


def test_a_source_database_that_does_not_exist_yet_is_accepted() -> None:
    source, target = a_source(get_database=MISSING), a_target()
    assert run(source, target) == BootstrapResult("shop", 7, repeated=False)
    assert "create_database" not in target.names(), "it is created by the event of its creation"


def test_tables_in_scope_wait_for_their_loads_and_mark_the_target_as_unfinished() -> None:
    store, target = MemoryStore(), a_target()
    begun = run(a_source(table_names=["tmp_1", "visits", "orders"]), target, store)
    assert (begun.tables, begun.event_id, is_pending(store)) == (2, 7, True)
    loads = TableLoads()
    loads.load(store)
    assert [(load.table, load.reason) for load in loads.waiting()] == [
        ("orders", "bootstrap"),
        ("visits", "bootstrap"),
    ]
    (database,) = target.only("create_database").arguments
    assert database.parameters == {
        "team": "a",
        "repl.target.for": "true",
        "tideline.bootstrap": "pending",
        "hive.repl.first.inc.pending": "true",
    }
    assert not run(a_source(), a_target(), store).repeated, "it is not finished yet"


def test_an_unfinished_bootstrap_whose_state_was_lost_begins_again_without_tables_that_are_gone() -> None:
    marked = Database(name="shop_r", parameters={"tideline.bootstrap": "pending"})
    target = a_target(
        get_database=lambda _: marked.copy(),
        create_database=AlreadyExists("there is one"),
        table_names=["orders", "gone"],
        get_table=lambda _, name: a_table(name),
    )
    run(a_source(table_names=["orders"]), target)
    assert target.only("drop_table").arguments == ("shop_r", "gone")


def test_tables_outside_the_policy_do_not_prevent_a_bootstrap() -> None:
    assert not run(a_source(table_names=["tmp_1"]), a_target()).repeated


def test_a_target_database_with_tables_is_refused() -> None:
    with pytest.raises(TargetDiverged):
        run(a_source(), a_target(get_database=Database(name="shop_r"), table_names=["strange"]))
