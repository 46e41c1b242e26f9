"""Bootstrap: its order, what it writes on both sides, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.replication.loading.bootstrap import BootstrapResult, bootstrap
from handlers.replication.policy import Policy
from handlers.structs.objects import Database
from state.errors import AlreadyExists, NotFound, TargetDiverged, Unsupported
from state.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore
from tests.builders.replication.recording_metastore import RecordingMetastore


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
    return bootstrap(**metastores, policy=POLICY, store=store or MemoryStore())


def test_a_new_policy_starts_after_the_sources_current_event() -> None:
    store = MemoryStore()
    assert run(a_source(), a_target(), store) == BootstrapResult(
        "shop", 7, source_exists=True, repeated=False
    )
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
    assert run(source, target, store) == BootstrapResult("shop", 7, source_exists=True, repeated=True)
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
    assert run(source, target) == BootstrapResult("shop", 7, source_exists=False, repeated=False)
    assert "create_database" not in target.names(), "it is created by the event of its creation"


def test_a_source_database_with_tables_in_scope_is_refused_and_no_position_is_recorded() -> None:
    store, target = MemoryStore(), a_target()
    with pytest.raises(Unsupported) as refused:
        run(a_source(table_names=["tmp_1", "orders"]), target, store)
    assert refused.value.context["tables"] == ["orders"]
    assert store.get(POSITION_KEY) is None
    assert target.calls == []


def test_tables_outside_the_policy_do_not_prevent_a_bootstrap() -> None:
    assert not run(a_source(table_names=["tmp_1"]), a_target()).repeated


def test_a_target_database_with_tables_is_refused() -> None:
    with pytest.raises(TargetDiverged):
        run(a_source(), a_target(table_names=["strange"]))
