"""The loads of a bootstrap: what is recorded, retried, given up and continued."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handlers.failures import Backoff
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.context import Context
from handlers.replication.loading import bootstrap_run
from handlers.replication.loading.bootstrap import begin_bootstrap, is_pending
from handlers.replication.loading.bootstrap_run import BootstrapOptions, run_bootstrap
from handlers.replication.loading.table.tools import LoadSettings
from handlers.replication.observer import SilentObserver
from handlers.replication.policy.policy import Policy
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from handlers.replication.target.target_position import TargetPosition
from handlers.structs.objects import Database
from state.errors import Fenced, FilesUnavailable, Interrupted, TargetDiverged, TidelineError, UnsafePath
from state.store.memory import MemoryStore
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


QUICK = Backoff(0.001, 0.002)
TABLES = ["a_view", "orders", "visits"]


class Rig:
    """A policy with two tables and a view, whose loads are a function of the test."""

    def __init__(self) -> None:
        self.database = Database(name="shop_r", parameters={})
        self.source = RecordingMetastore(
            {
                "current_event_id": 7,
                "get_database": lambda _: Database(name="shop", parameters={"repl.source.for": "shop"}),
                "table_names": TABLES,
                "get_tables": lambda _, names: [
                    a_table(name, kind="VIRTUAL_VIEW" if "view" in name else "MANAGED_TABLE")
                    for name in names
                ],
            }
        )
        self.target = RecordingMetastore(
            {
                "get_database": lambda _: self.database.copy(),
                "create_database": lambda created: setattr(self, "database", created),
                "alter_database": lambda _, changed: setattr(self, "database", changed),
            }
        )
        self.store = MemoryStore()
        self.loaded: list[str] = []
        self.errors: dict[str, list[TidelineError]] = {}
        files = open_file_systems()
        policy: Any = Policy(name="shop", source_db="shop", target_db="shop_r")
        source: Any = self.source
        target: Any = self.target
        position = TargetPosition(target, policy)
        self.copies = CopyPool(Copier(files, AllowedRoots(), guard=position.require_held), workers=1)
        self.context = Context.between(
            source, position, policy, copies=self.copies, files=files, observer=SilentObserver()
        )
        begin_bootstrap(source=source, target=target, policy=policy, store=self.store)

    def load(self, load: TableLoad, *_: object) -> LoadedTable:
        waiting = self.errors.get(load.table, [])
        if waiting:
            raise waiting.pop(0)
        self.loaded.append(load.table)
        return LoadedTable(load.table, 9, 3)

    def run(self, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
        self.context.tables.loads.load(self.store)
        self.context.tables.quarantine.load(self.store)
        options = BootstrapOptions(
            LoadSettings(tables_at_once=2), backoff=QUICK, tries_max=3, is_stopping=is_stopping
        )
        run_bootstrap(self.context, self.store, options, lambda: None)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    made = Rig()
    monkeypatch.setattr(bootstrap_run, "load_table", made.load)
    yield made
    made.copies.close()


def test_all_tables_are_loaded_views_last_and_the_database_is_finished(rig: Rig) -> None:
    assert (rig.database.parameters or {})["tideline.bootstrap"] == "pending"
    rig.run()
    assert sorted(rig.loaded[:2]) == ["orders", "visits"]
    assert rig.loaded[2] == "a_view"
    assert rig.database.parameters == {
        "repl.target.for": "true",
        "repl.last.id": "7",
        "tideline.quarantine": "-",
    }
    assert not is_pending(rig.store)
    entries = rig.context.tables.loads.entries()
    assert {(entry.event_id, entry.write_id) for entry in entries} == {(9, 3)}


def test_the_marks_of_a_bootstrap_are_replaced_by_the_position_with_one_write(rig: Rig) -> None:
    rig.target.calls.clear()
    rig.run()
    assert rig.target.names().count("alter_database") == 1


def test_a_second_run_loads_only_what_the_first_did_not(rig: Rig) -> None:
    rig.errors["visits"] = [FilesUnavailable("down")] * 3
    with pytest.raises(FilesUnavailable):
        rig.run()
    assert rig.loaded == ["orders"]
    assert is_pending(rig.store)
    rig.context.tables.loads.load(rig.store)
    problem = rig.context.tables.loads.get("visits")
    assert problem is not None
    assert problem.tries == 3
    assert "down" in (problem.problem or "")
    rig.run()
    assert rig.loaded == ["orders", "visits", "a_view"]


def test_a_failure_that_passes_is_retried(rig: Rig) -> None:
    rig.errors["orders"] = [FilesUnavailable("down")] * 2
    rig.run()
    assert sorted(rig.loaded) == TABLES


def test_a_table_that_cannot_be_loaded_is_quarantined_and_the_others_are_loaded(rig: Rig) -> None:
    rig.errors["orders"] = [UnsafePath("outside")]
    rig.run()
    assert rig.loaded == ["visits", "a_view"]
    assert [(e.table, e.code) for e in rig.context.tables.quarantine.entries()] == [("orders", "unsafe-path")]
    assert "orders" not in rig.context.tables.loads
    assert not is_pending(rig.store)


def test_a_load_that_finds_the_target_changed_is_repeated_and_its_table_never_quarantined(rig: Rig) -> None:
    rig.errors["orders"] = [TargetDiverged("other write ids")] * 3
    with pytest.raises(TargetDiverged):
        rig.run()
    assert rig.context.tables.quarantine.entries() == ()
    rig.run()
    assert sorted(rig.loaded) == TABLES


def test_a_bootstrap_ends_at_once_if_another_instance_took_over_the_target(rig: Rig) -> None:
    rig.errors["orders"] = [Fenced("another instance")]
    with pytest.raises(Fenced):
        rig.run()
    assert rig.errors["orders"] == []
    assert is_pending(rig.store)


def test_a_bootstrap_that_is_stopped_stays_unfinished(rig: Rig) -> None:
    with pytest.raises(Interrupted):
        rig.run(is_stopping=lambda: True)
    assert is_pending(rig.store)


def test_a_finished_bootstrap_is_not_run_again(rig: Rig) -> None:
    rig.run()
    rig.loaded.clear()
    rig.run()
    assert rig.loaded == []
