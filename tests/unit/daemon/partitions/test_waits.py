"""Waiting for a partition: what the index has, what it does not have yet, and what it cannot have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from daemon.catalog.branch import OpenSource
from daemon.http.parameters import read_parameters
from daemon.partitions.answers import PartitionsView
from daemon.partitions.waits import PartitionExists, PartitionParameters, partition_kind
from daemon.waits.conditions import Reached
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from state.errors import BadInput, NotFound
from state.store.memory import MemoryStore


TABLE = f"{DB}.a"


@pytest.fixture
def view() -> PartitionsView:
    source: Any = MemorySource()
    source.create("a", ("dt", "x"))
    source.add("a", "2015-01-01", "it's")
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    projection = CatalogProjection(source_name="s", source=source, store=MemoryStore(), followers=[follower])
    projection.open()
    projection.load_all()
    return PartitionsView(
        follower=follower, event_id=10, waiting={f"{DB}.new": "snapshot"}, quarantined={}, under_load={}
    )


def checked(view: PartitionsView | None, **given: str) -> Reached:
    kind = partition_kind([OpenSource("lake", lambda: view)])
    condition = kind.build(read_parameters(kind.parameters, given))
    assert isinstance(condition, PartitionExists)
    assert condition.projections == ["catalog:lake"]
    return condition.check()


@pytest.mark.parametrize("partition", ["dt=2015-01-01/x=it%27s", "x=it's/DT=2015-01-01"])
def test_a_partition_of_the_index_is_found_however_it_is_written(
    view: PartitionsView, partition: str
) -> None:
    found = checked(view, table=TABLE, partition=partition)
    assert (found.is_true, found.source) == (True, "lake")
    assert found.event_id is not None


def test_a_partition_that_is_not_there_yet_is_waited_for(view: PartitionsView) -> None:
    found = checked(view, table=TABLE, partition="dt=2015-01-02/x=x")
    assert not found.is_true
    assert "following" in found.reason


def test_a_table_that_is_being_loaded_and_a_state_that_is_not_open_are_waited_for(
    view: PartitionsView,
) -> None:
    assert not checked(view, table=f"{DB}.new", partition="dt=1").is_true
    assert not checked(None, table=TABLE, partition="dt=1").is_true
    not_listed = replace(view, is_surveyed=False)
    assert not checked(not_listed, table=f"{DB}.none", partition="dt=1").is_true


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"table": f"{DB}.none", "partition": "dt=1"}, NotFound),
        ({"table": TABLE, "partition": "dt=1/x=1", "source": "pond"}, NotFound),
        ({"table": TABLE, "partition": "dt=2015-01-01"}, BadInput),
        ({"table": TABLE, "partition": "dt=2015-01-01/y=1"}, BadInput),
        ({"table": TABLE, "partition": "dt=2015-01-01/x=1/x=2"}, BadInput),
        ({"table": TABLE, "partition": ""}, BadInput),
        ({"partition": "dt=2015-01-01/x=1"}, BadInput),
    ],
)
def test_what_can_never_be_true_is_an_error(
    view: PartitionsView, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        checked(view, **given)


def test_equal_questions_are_one_condition(view: PartitionsView) -> None:
    kind = partition_kind([OpenSource("lake", lambda: view)])
    given = PartitionParameters(table=TABLE, partition="dt=1/x=1")
    assert len({kind.build(given), kind.build(given)}) == 1
