"""Loads in their thread: one after another, repeated after failures, cancelled before their table changes."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from handlers.replication.loading.load_thread import LoadThread
from handlers.replication.loading.table.tools import LoadProgress, LoadSettings, LoadTools
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from handlers.replication.target.long_work import LOADS_MAX
from state.errors import MetastoreUnavailable
from tests.builders.daemon.loops import eventually
from tests.builders.replication.fake_target import Clock, FakedReplica
from tests.builders.replication.replay_events import dropped


def _no_pool() -> Any:
    """Return copy threads that no load uses."""
    return NoPool()


class NoPool:
    def close(self) -> None:
        """Nothing to close."""


class Loads:
    """A loader whose loads end when a test says so."""

    def __init__(self, replica: FakedReplica) -> None:
        self.replica = replica
        self.loaded: list[str] = []
        self.may_end = threading.Event()
        self.errors: list[Exception] = []
        self.clock: Clock = replica.clock
        self.thread = LoadThread(
            replica.context, _no_pool, LoadSettings(), load=self.load, clock=replica.clock
        )

    def load(self, entry: TableLoad, tools: LoadTools, _progress: LoadProgress) -> LoadedTable:
        self.loaded.append(entry.table)
        while not self.may_end.wait(0.01):
            tools.step()
        if self.errors:
            raise self.errors.pop()
        return LoadedTable(entry.table, event_id=9)

    def step(self) -> None:
        self.thread.step(self.replica.projection.loads)

    def end(self) -> None:
        self.may_end.set()
        run = self.thread._run
        assert run is not None
        assert run.thread is not None
        eventually(lambda: not run.thread.is_alive())  # type: ignore[union-attr]
        self.step()


@pytest.fixture
def loads(replica: FakedReplica) -> Loads:
    return Loads(replica)


def test_waiting_tables_are_loaded_one_after_another(loads: Loads) -> None:
    loads.replica.projection.loads.request(["a", "b"], "repair")
    loads.step()
    loads.step()
    eventually(lambda: loads.loaded == ["a"])
    assert loads.thread.table == "a"
    loads.end()
    eventually(lambda: loads.loaded == ["a", "b"])
    loads.end()
    assert loads.replica.context.tables.loads.waiting() == ()


@pytest.mark.parametrize("error", [MetastoreUnavailable("down"), RuntimeError("a defect")])
def test_a_load_that_fails_is_repeated_later_and_its_problem_is_recorded(
    loads: Loads, error: Exception
) -> None:
    loads.errors.append(error)
    loads.replica.projection.loads.request(["a"], "repair")
    loads.step()
    loads.end()
    (entry,) = loads.replica.context.tables.loads.waiting()
    assert entry.tries == 1
    assert entry.problem
    assert loads.loaded == ["a"]
    loads.clock.now_s += 10.0
    loads.step()
    eventually(lambda: loads.loaded == ["a", "a"])
    loads.end()
    assert loads.replica.context.tables.loads.waiting() == ()


def test_a_request_for_a_table_whose_load_failed_lets_it_be_tried_at_once(loads: Loads) -> None:
    loads.errors.append(MetastoreUnavailable("down"))
    loads.replica.projection.loads.request(["a"], "repair")
    loads.step()
    loads.end()
    next_try_s = loads.thread.find_next_try_s("a")
    assert next_try_s is not None
    assert next_try_s > time.time()
    loads.step()
    assert loads.loaded == ["a"], "it waits"
    loads.replica.projection.loads.request(["a"], "release")
    assert loads.thread.find_next_try_s("a") is None
    loads.step()
    assert loads.thread.table == "a"
    loads.end()
    assert loads.replica.context.tables.loads.waiting() == ()


def test_a_drop_ends_the_load_before_the_table_is_dropped_and_its_result_is_discarded(loads: Loads) -> None:
    loads.replica.projection.loads.request(["orders"], "repair")
    loads.step()
    eventually(lambda: loads.loaded == ["orders"])
    loads.replica.projection.apply([dropped(1)])
    assert loads.thread.table is None
    loads.step()
    assert loads.loaded == ["orders"]
    assert len(loads.replica.context.tables.loads) == 0


def test_a_load_begins_when_the_loads_of_other_policies_leave_a_place(loads: Loads) -> None:
    places = loads.replica.context.long_work.loads
    taken = sum(places.take() for _ in range(LOADS_MAX + 1))
    assert taken == LOADS_MAX
    loads.replica.projection.loads.request(["a"], "repair")
    loads.step()
    assert loads.thread.table is None
    places.leave()
    loads.step()
    eventually(lambda: loads.loaded == ["a"])
    assert not places.take()
    loads.end()
    assert places.take(), "the load that ended has left its place"
