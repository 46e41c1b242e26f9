"""Events of tables whose rows come by a load: what replay skips, and what it does to the load."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from handlers.events import DatabaseDropped, Undecodable
from handlers.replication.tables.table_loads import LoadedTable, TableLoad, TableLoads
from state.errors import InvalidRequest, MalformedEvent, NotFound
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    changed,
    committed,
    created,
    dropped,
    written,
)


def stored(replica: FakedReplica) -> dict[str, TableLoad]:
    """Return the stored loads, by table."""
    found = TableLoads()
    found.load(replica.store)
    return {entry.table: entry for entry in found.entries()}


def cancelled(replica: FakedReplica) -> list[str]:
    """Return a list of the tables whose load is cancelled from now on."""
    tables: list[str] = []
    replica.context.tables.loads.subscribe(SimpleNamespace(cancel=tables.append, hurry=lambda _table: None))
    return tables


def test_a_request_releases_a_quarantined_table_and_makes_it_wait_at_once(replica: FakedReplica) -> None:
    replica.target.fails("create_table", InvalidRequest("no"))
    replica.projection.apply([created(1)])
    assert replica.projection.loads.request(["orders"], "release") == ("orders",)
    assert replica.stored_quarantine() == {}
    assert stored(replica)["orders"].reason == "release"
    assert not stored(replica)["orders"].is_loaded


def test_a_request_for_a_table_outside_the_policy_changes_nothing(tmp_path: Path) -> None:
    replica = faked_replica(tmp_path, exclude=("tmp_*",))
    with closing(replica.projection), pytest.raises(NotFound):
        replica.projection.loads.request(["orders", "tmp_1"], "repair")
    assert stored(replica) == {}


def test_events_of_a_waiting_table_have_no_effect_and_other_tables_are_followed(
    replica: FakedReplica,
) -> None:
    replica.projection.loads.request(["orders"], "repair")
    replica.projection.apply([created(1), altered(2), allocated(3, 1, 1), created(4, "other")])
    assert list(replica.target.tables) == ["other"]
    assert replica.target.open_txns == []
    assert replica.stored_quarantine() == {}


def test_an_undecodable_event_of_a_waiting_table_quarantines_nothing(replica: FakedReplica) -> None:
    replica.projection.loads.request(["orders"], "repair")
    replica.projection.apply(
        [
            Undecodable(
                event_id=1, time_s=0, kind="ALTER_TABLE", db="shop", table="orders", error=MalformedEvent("x")
            )
        ]
    )
    assert replica.stored_quarantine() == {}


def test_a_drop_cancels_the_load_and_drops_the_table(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.loads.request(["orders"], "repair")
    tables = cancelled(replica)
    replica.projection.apply([dropped(2)])
    assert tables == ["orders"]
    assert replica.target.tables == {}
    assert stored(replica) == {}


def test_a_rename_moves_the_load_to_the_new_name(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.loads.request(["orders"], "repair")
    tables = cancelled(replica)
    replica.projection.apply([altered(2, new_name="archive"), created(3)])
    assert tables == ["orders"]
    assert list(stored(replica)) == ["archive"]
    assert list(replica.target.tables) == ["orders"], "the old name belongs to a new table, which is followed"


def test_a_drop_of_the_database_cancels_all_loads(replica: FakedReplica) -> None:
    replica.projection.loads.request(["orders", "other"], "repair")
    tables = cancelled(replica)
    replica.target.drop_database = lambda *_, **__: None  # type: ignore[attr-defined]
    replica.projection.apply([DatabaseDropped(event_id=1, time_s=0, kind="DROP_DATABASE", db="shop")])
    assert sorted(tables) == ["orders", "other"]
    assert stored(replica) == {}


def test_events_and_write_ids_that_the_load_contains_have_no_effect(replica: FakedReplica) -> None:
    replica.projection.loads.request(["orders"], "repair")
    replica.target.create_table(a_table(location=None))
    replica.projection.loads.finish(LoadedTable("orders", 3, 2))
    late, new = replica.file(write_id=2), replica.file(write_id=3)
    replica.projection.apply([altered(1), allocated(2, 1, 1), allocated(3, 2, 2), allocated(4, 3, 3)])
    replica.projection.apply(
        [written(5, late, txn_id=2, write_id=2, parts=2), committed(5, 2, part=1, parts=2)]
    )
    replica.projection.apply(
        [written(6, new, txn_id=3, write_id=3, parts=2), committed(6, 3, part=1, parts=2)]
    )
    assert replica.target.allocations == [(3, 3, False)]
    assert [txn for txn, _ in replica.target.commits] == [3]
    assert replica.files_on_target() == ["orders/delta_0000003_0000003_0000/bucket_00000_0"]
    assert replica.target.calls.count("alter_table") == 0


def test_an_allocation_with_several_ids_keeps_those_that_the_load_does_not_contain(
    replica: FakedReplica,
) -> None:
    replica.projection.loads.request(["orders"], "repair")
    replica.target.create_table(a_table(location=None))
    replica.projection.loads.finish(LoadedTable("orders", 1, 2))
    replica.projection.apply([created(1), replace(allocated(2, 1, 1), pairs=((1, 2), (2, 3)))])
    assert replica.target.allocations == [(2, 3, False)]


def test_a_rename_of_an_earlier_table_than_the_loaded_one_makes_its_new_name_wait(
    replica: FakedReplica,
) -> None:
    replica.projection.loads.request(["orders"], "repair")
    replica.target.create_table(a_table(location=None))
    replica.projection.loads.finish(LoadedTable("orders", 5))
    replica.projection.apply([altered(1, new_name="archive"), created(2)])
    assert [entry.table for entry in replica.context.tables.loads.waiting()] == ["archive"]
    assert list(replica.target.tables) == ["orders"], "the loaded table keeps its name"


def test_a_table_renamed_out_of_the_policy_while_it_waits_is_dropped(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.loads.request(["orders"], "repair")
    replica.projection.apply([changed(2, a_table(), a_table(db="attic"))])
    assert replica.target.tables == {}
    assert stored(replica) == {}


def test_loads_survive_a_restart_whose_events_are_already_on_the_target(replica: FakedReplica) -> None:
    replica.projection.loads.request(["orders", "other"], "repair")
    replica.restart(target_at=4)
    replica.projection.apply(
        [altered(1, new_name="archive"), dropped(2, "other"), allocated(3, 1, 1, "archive"), created(4)]
    )
    assert list(stored(replica)) == ["archive"]
    assert replica.context.tables.write_ids.tables() == ()


def test_files_under_a_write_id_that_replay_did_not_allocate_are_skipped(replica: FakedReplica) -> None:
    """The table was waiting for its load when the id was allocated, and was dropped since; the name is that
    of a new one."""
    replica.projection.loads.request(["orders"], "repair")
    file = replica.file()
    replica.projection.apply([allocated(1, 1, 1), dropped(2), created(3)])
    replica.projection.apply([written(4, file, parts=2), committed(4, part=1, parts=2)])
    assert replica.files_on_target() == []
    assert replica.stored_quarantine() == {}
