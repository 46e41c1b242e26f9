"""The property ``tideline.replicate`` of a table switches its replication off and on."""

from __future__ import annotations

from pathlib import Path

import pytest

from handlers.events import TableAltered
from handlers.replication.policy.replicability import (
    REPLICATE,
    SWITCHED_OFF,
    find_obstacle,
    may_have_obstacle,
)
from handlers.replication.tables.table_loads import LoadedTable
from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import MalformedEvent
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    changed,
    committed,
    created,
    dropped,
    written,
)


def table(name: str = "orders", *, off: bool = False, value: str = "false") -> Table:
    """Return a transactional table, with the property or without."""
    switch = {REPLICATE: value} if off else {}
    return a_table(name, parameters={"transactional": "true", **switch})


def switched(event_id: int, *, off: bool) -> TableAltered:
    return changed(event_id, table(off=not off), table(off=off))


def recorded(replica: FakedReplica) -> dict[str, tuple[str, bool]]:
    return {each.table: (each.code, each.on_target) for each in replica.context.tables.unreplicated.entries()}


def waiting(replica: FakedReplica) -> list[str]:
    return [entry.table for entry in replica.context.tables.loads.waiting()]


@pytest.mark.parametrize(
    ("value", "off"), [("false", True), (" FALSE ", True), ("true", False), ("no", False), ("", False)]
)
def test_only_the_value_false_switches_a_table_off(value: str, *, off: bool) -> None:
    found = table(off=True, value=value)
    assert find_obstacle(found) == (SWITCHED_OFF if off else None)
    assert may_have_obstacle(tjson.encode(found))


def test_a_table_that_is_created_switched_off_never_reaches_the_target(replica: FakedReplica) -> None:
    file = replica.file()
    parameters = {"transactional": "true", REPLICATE: "false"}
    replica.projection.apply(
        [
            created(1, parameters=parameters),
            allocated(2, 1, 1),
            written(3, file, parts=2),
            committed(3, part=1, parts=2),
        ]
    )
    assert (replica.target.tables, replica.files_on_target()) == ({}, [])
    assert recorded(replica) == {"orders": ("switched-off", False)}


def test_a_table_that_is_switched_off_keeps_its_state_and_is_loaded_when_it_is_switched_on(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), switched(2, off=True)])
    replica.target.calls.clear()
    replica.projection.apply([allocated(3, 1, 1), committed(4)])
    assert "allocate_replayed" not in replica.target.calls
    assert REPLICATE not in (replica.target.tables["orders"].parameters or {})
    assert recorded(replica) == {"orders": ("switched-off", True)}
    replica.restart()
    assert recorded(replica) == {"orders": ("switched-off", True)}, "it is part of the state"
    replica.projection.apply([switched(5, off=False)])
    assert waiting(replica) == ["orders"]
    assert recorded(replica) == {}


def test_a_table_that_is_switched_off_is_dropped_with_its_source(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), switched(2, off=True), dropped(3)])
    assert (replica.target.tables, recorded(replica)) == ({}, {})


def test_a_table_that_is_switched_off_is_renamed_with_its_source(replica: FakedReplica) -> None:
    replica.projection.apply(
        [created(1), switched(2, off=True), changed(3, table(off=True), table("sold", off=True)), created(4)]
    )
    assert sorted(replica.target.tables) == ["orders", "sold"]
    assert recorded(replica) == {"sold": ("switched-off", True)}


def test_switching_a_quarantined_table_off_and_on_releases_it(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.context.tables.quarantine.add("orders", 2, MalformedEvent("no"))
    replica.projection.apply([switched(3, off=True)])
    assert replica.stored_quarantine() == {}
    replica.projection.apply([switched(4, off=False)])
    assert waiting(replica) == ["orders"]


def test_a_load_of_a_table_that_is_switched_off_keeps_what_the_target_has(replica: FakedReplica) -> None:
    """As after a gap, in which the property was set."""
    replica.projection.apply([created(1)])
    replica.context.tables.loads.request("orders", "gap")
    replica.projection.loads.finish(LoadedTable("orders", 9, exists=False, obstacle=SWITCHED_OFF))
    assert "orders" in replica.target.tables
    assert recorded(replica) == {"orders": ("switched-off", True)}


def test_tables_whose_rows_are_elsewhere_are_replicated_without_rows(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, metadata_only=("in_*",))
    replica.projection.open()
    handler = {"storage_handler": "org.example.JdbcStorageHandler"}
    replica.projection.apply(
        [created(1, "in_jdbc", parameters=handler), created(2, "other", parameters=handler)]
    )
    assert list(replica.target.tables) == ["in_jdbc"]
    assert recorded(replica) == {"other": ("storage-handler", False)}
    replica.projection.close()
