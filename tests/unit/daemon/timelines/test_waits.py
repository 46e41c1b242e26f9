"""Waiting for a range of time: it is covered, something is missing, or nobody can cover it."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.catalog.branch import OpenSource
from daemon.http.parameters import read_parameters
from daemon.timelines.answers import TimelinesView
from daemon.timelines.waits import RangeCovered, range_kind
from daemon.waits.conditions import Reached
from state.errors import BadInput, NotFound
from state.store.memory import MemoryStore
from state.timelines.tables.facts import Fact, StorageTable
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings


DAYS = "shop.days"


@pytest.fixture
def view() -> TimelinesView:
    made, store = Timelines(), MemoryStore()
    with store.transaction() as txn:
        change = made.change(txn)
        change.follow(DAYS, TableSettings(("dt",), ("dt",)))
        for day in ("2015-01-01", "2015-01-02", "2015-01-04"):
            change.add(DAYS, {"dt": day})
    change.publish()
    return TimelinesView(
        event_id=10,
        waiting={"shop.new": "snapshot"},
        quarantined={},
        timelines=made,
        facts={"sales": Fact("sales", (StorageTable(DAYS),))},
    )


def checked(view: TimelinesView | None, **given: str) -> Reached:
    kind = range_kind([OpenSource("lake", lambda: view)])
    condition = kind.build(read_parameters(kind.parameters, given))
    assert isinstance(condition, RangeCovered)
    assert condition.projections == ["catalog:lake"]
    return condition.check()


@pytest.mark.parametrize("name", [{"table": DAYS}, {"fact": "sales"}])
def test_a_range_that_is_covered_is_true(view: TimelinesView, name: dict[str, Any]) -> None:
    found = checked(view, column="dt", range="2015-01-01..2015-01-03", **name)
    assert (found.is_true, found.source, found.event_id, found.reason) == (True, "lake", 10, "")


def test_a_range_with_a_hole_says_what_is_missing(view: TimelinesView) -> None:
    found = checked(view, table=DAYS, range="2015-01-01..2015-01-05")
    assert not found.is_true
    assert "2015-01-03" in found.reason


def test_a_table_that_is_being_loaded_and_a_state_that_is_not_open_are_waited_for(
    view: TimelinesView,
) -> None:
    assert not checked(view, table="shop.new", range="2015-01-01..2015-01-05").is_true
    assert not checked(None, table=DAYS, range="2015-01-01..2015-01-05").is_true


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"table": "shop.none", "range": "2015-01-01..2015-01-05"}, NotFound),
        ({"table": DAYS, "range": "2015-01-01..2015-01-05", "source": "pond"}, NotFound),
        ({"table": DAYS, "range": "2015-01-01"}, BadInput),
        ({"table": DAYS, "range": "soon..later"}, BadInput),
        ({"table": DAYS, "fact": "sales", "range": "2015-01-01..2015-01-05"}, BadInput),
        ({"range": "2015-01-01..2015-01-05"}, BadInput),
    ],
)
def test_what_can_never_be_true_is_an_error(
    view: TimelinesView, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        checked(view, **given)
