"""Columns that are appended without CASCADE change no partition, so the partitions are not loaded again; with
CASCADE they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection as projection_module
from handlers.catalog.following import column_checks
from handlers.structs.objects import Partition
from state.errors import Refused, ServerFault
from tests.builders.catalog.indexed_source import expected
from tests.builders.catalog.late_catalog import LateCatalog


NAME = f"{DB}.a"
OLDEST = ("2015-01-01", "x")


class CountingSource(MemorySource):
    """Counts the partitions that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def get_partitions(self, db: str, name: str, names: Sequence[str]) -> list[Partition]:
        found = super().get_partitions(db, name, names)
        self.read += len(found)
        return found


class Columns(LateCatalog):
    """A catalog of a table with 30 partitions."""

    source: CountingSource

    def __init__(self) -> None:
        source = CountingSource()
        source.create("a")
        for day in range(1, 31):
            source.add("a", f"2015-01-{day:02}", "x")
        super().__init__(source)
        self.finish()
        source.read = 0

    def step(self) -> None:
        """Make and answer one call, and take the answer."""
        self.calls.make()
        self.calls.answer()
        self.projection.settle()

    def state(self) -> tuple[str, str | None]:
        state = self.projection.states.state(NAME)
        assert state is not None
        return state.name, None if state.load is None else state.load.reason

    def require_exact(self) -> None:
        assert self.state() == ("following", None)
        assert self.held() == expected(self.source)
        self.index.check()


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> Columns:
    monkeypatch.setattr(projection_module, "STEP_WAIT_S", 0.0)
    monkeypatch.setattr(projection_module, "ANSWER_WAIT_S", 0.0)
    return Columns()


def test_a_column_added_without_cascade_reads_a_few_partitions_and_loads_none(columns: Columns) -> None:
    columns.source.add_column("a")
    columns.apply()
    assert columns.state() == ("doubtful", "columns")
    columns.finish()
    assert columns.source.read == 8
    columns.require_exact()
    columns.source.add("a", "2015-02-01", "x")
    columns.finish()
    columns.require_exact()


def test_a_column_added_with_cascade_loads_all_partitions(columns: Columns) -> None:
    columns.source.cascade("a")
    columns.finish()
    assert columns.source.read == 8 + 30
    columns.require_exact()


def test_several_statements_in_a_row_are_decided_together(columns: Columns) -> None:
    for _ in range(3):
        columns.source.add_column("a")
    columns.finish()
    assert columns.source.read == 8
    columns.require_exact()
    columns.source.add_column("a")
    columns.source.cascade("a")
    columns.source.add_column("a")
    columns.finish()
    columns.require_exact()


def test_events_during_the_decision_are_applied_afterwards(columns: Columns) -> None:
    columns.source.add_column("a")
    columns.apply()
    columns.projection.settle()
    columns.source.drop("a", "2015-01-30", "x")
    columns.source.add("a", "2015-02-01", "x")
    columns.source.describe("a", OLDEST, {"numRows": "7"})
    columns.finish()
    assert columns.source.read == 8
    columns.require_exact()


@pytest.mark.parametrize("change", ["alter", "drop and add", "rename"])
def test_a_partition_that_was_changed_since_proves_nothing(columns: Columns, change: str) -> None:
    """All samples look as if there had been no CASCADE, because each was given its former columns again."""
    former = {values: one.copy() for values, one in columns.source.partitions["a"].items()}
    columns.source.cascade("a")
    for values in sorted(former)[:8]:
        match change:
            case "alter":
                columns.source.partitions["a"][values] = former[values]
                columns.source.alter_partition("a", values, {})
            case "drop and add":
                columns.source.drop("a", *values)
                columns.source.add("a", *values)
                columns.source.partitions["a"][values] = former[values]
                columns.source.alter_partition("a", values, {})
            case _:
                columns.source.rename_partition("a", values, (values[0], "other"))
    columns.apply(1)
    columns.projection.settle()
    columns.step()
    columns.finish()
    columns.require_exact()


def test_the_decision_waits_for_events_up_to_the_reading(columns: Columns) -> None:
    columns.source.add_column("a")
    columns.source.add("a", "2015-02-01", "x")
    columns.apply(1)
    columns.projection.settle()
    columns.step()
    assert columns.state() == ("doubtful", "columns")
    assert not columns.projection.settle(), "nothing can be done before the next event"
    columns.finish()
    assert columns.source.read == 8
    columns.require_exact()


def test_other_changes_of_columns_load_all_partitions(columns: Columns) -> None:
    """Hive then also changes the parameters of partitions, without CASCADE too."""
    columns.source.add_column("a")
    columns.finish()
    columns.source.read = 0
    columns.source.rename_column("a")
    columns.finish()
    assert columns.source.read == 30
    columns.source.add_column("a")
    columns.source.rename_column("a")
    columns.finish()
    columns.require_exact()


def test_a_table_that_is_renamed_before_the_decision_is_loaded(columns: Columns) -> None:
    columns.source.add_column("a")
    columns.source.rename("a", "b")
    columns.finish()
    assert columns.projection.states.state(NAME) is None
    state = columns.projection.states.state(f"{DB}.b")
    assert state is not None
    assert state.name == "following"
    assert columns.source.read == 30


def test_a_table_is_loaded_after_a_restart_before_the_decision(columns: Columns) -> None:
    columns.source.add_column("a")
    columns.apply()
    columns.open()
    assert columns.state() == ("doubtful", "columns")
    columns.finish()
    assert columns.source.read == 30
    columns.require_exact()


def test_a_table_with_too_many_events_for_a_decision_is_loaded(
    columns: Columns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_checks, "EVENTS_MAX", 3)
    columns.source.add_column("a")
    for day in range(1, 5):
        columns.source.add("a", f"2015-02-{day:02}", "x")
    columns.finish()
    assert columns.source.read == 34
    columns.require_exact()


@pytest.mark.parametrize("fault", [ServerFault("internal error"), Refused("no permission")])
def test_a_reading_that_fails_does_not_end_the_doubt(columns: Columns, fault: Exception) -> None:
    columns.source.add_column("a")
    columns.apply()
    columns.flaky.faults = [fault]
    columns.projection.settle()
    columns.step()
    assert columns.state()[0] == "doubtful"
    columns.finish()
    columns.require_exact()


def test_a_table_that_a_listing_under_way_may_have_changed_is_loaded(columns: Columns) -> None:
    """An event that the listing may contain in part: partitions listed before it lack the column, later ones
    may have it."""
    columns.projection.request_load(NAME)
    columns.projection.settle()
    columns.source.cascade("a")
    columns.finish()
    columns.require_exact()
