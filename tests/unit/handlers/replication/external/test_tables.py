"""What is known of external tables stays up to date with the events, and is read from the source only if it
has to be."""

from __future__ import annotations

from typing import Any, cast

from handlers.events import (
    DatabaseDropped,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
)
from handlers.metastore.client import Metastore
from handlers.replication.target.external_tables import ExternalTables
from state.external.directories import TableDirectories
from tests.builders.replication.external import Source, partition
from tests.builders.replication.replay_events import embedded
from tests.builders.replication.spark_tables import a_spark_table


def event(kind: type[Event], table: str | None = None, **fields: Any) -> Event:
    return kind(event_id=1, time_s=0, kind=kind.__name__, db="shop", table=table, **fields)


def added(table: str, location: str, kind: type[Event] = PartitionsAdded) -> Event:
    key = "after" if kind is PartitionsAltered else "partitions"
    return event(kind, table, owner=None, **{key: (embedded(partition("dt=9", location)),)})


def a_source() -> Source:
    source = Source()
    source.create("flat", "file:/x/flat/")
    source.create("managed", "file:/w/managed", external=False)
    source.create("parts", "file:///x/parts", partitioned=True)
    source.partitions["parts"] = {"dt=1": "file:/x/parts/dt=1", "dt=2": "file:/y/2"}
    return source


NAMES = ("flat", "managed", "parts", "dropped")


def test_external_tables_are_read_once_and_managed_ones_are_left_out() -> None:
    source, known = a_source(), ExternalTables()
    expected = [
        TableDirectories("flat", "file:/x/flat"),
        TableDirectories("parts", "file:/x/parts", ("file:/y/2",)),
    ]
    assert source.refresh(known, *NAMES) == expected
    assert source.reads == [*NAMES, "parts/*"]
    assert source.refresh(known, *NAMES) == expected
    assert source.reads == ["dropped"], "only what the source did not have is asked for again"


def test_files_are_replaced_without_events_in_tables_of_spark_and_in_those_that_own_their_data() -> None:
    source, known = a_source(), ExternalTables()
    source.tables["flat"].parameters = {"external.table.purge": "TRUE"}
    source.tables["managed"] = a_spark_table("managed", location="file:/w/managed")
    found = {each.table: each.is_replaced for each in source.refresh(known, *NAMES)}
    assert found == {"flat": True, "managed": True, "parts": False}


def test_partitions_that_events_add_need_no_further_reading() -> None:
    source, known = a_source(), ExternalTables()
    source.refresh(known, "parts")
    known.note(added("parts", "file:/x/parts/dt=3"))
    known.note(added("parts", "file:/z/4/"))
    known.note(added("parts", "file:/z/4/deep", PartitionsAltered))
    (parts,) = source.refresh(known, "parts")
    assert parts.outside == ("file:/y/2", "file:/z/4")
    assert source.reads == []


def test_a_table_is_read_again_if_its_files_moved_or_a_partition_outside_of_it_was_dropped() -> None:
    source, known = a_source(), ExternalTables()
    source.refresh(known, "flat", "parts")
    drop = event(PartitionsDropped, "parts", owner=None, specs=({"dt": "1"},))
    known.note(drop)
    source.partitions["parts"] = {"dt=1": "file:/x/parts/dt=1"}
    (_, parts) = source.refresh(known, "flat", "parts")
    assert (parts.outside, source.reads) == ((), ["parts", "parts/*"])
    known.note(drop)
    source.refresh(known, "flat", "parts")
    assert source.reads == [], "all partitions are below the table"
    before = source.tables["flat"]
    moved = source.create("flat", "file:/x/elsewhere")
    known.note(event(TableAltered, "flat", before=embedded(before), after=embedded(before)))
    assert source.refresh(known, "flat", "parts")[0].root == "file:/x/flat", "only parameters changed"
    known.note(event(TableAltered, "flat", before=embedded(before), after=embedded(moved)))
    assert source.refresh(known, "flat", "parts")[0].root == "file:/x/elsewhere"


def test_a_table_that_was_created_again_or_loaded_is_read_again() -> None:
    source, known = a_source(), ExternalTables()
    source.refresh(known, "flat")
    table = source.create("flat", "file:/x/second")
    known.note(event(TableCreated, "flat", after=embedded(table)))
    assert source.refresh(known, "flat")[0].root == "file:/x/second"
    source.create("flat", "file:/x/third")
    assert source.refresh(known, "flat", load="a load")[0].root == "file:/x/third"
    known.note(event(DatabaseDropped))
    source.refresh(known, "flat", load="a load")
    assert source.reads == ["flat"]


def test_a_table_out_of_scope_is_forgotten() -> None:
    source, known = a_source(), ExternalTables()
    source.refresh(known, "flat")
    assert source.refresh(known) == []
    source.create("flat", "file:/x/second")
    assert source.refresh(known, "flat")[0].root == "file:/x/second"


def test_an_event_during_the_reading_is_not_lost() -> None:
    source, known = a_source(), ExternalTables()
    read = source.partition_names

    def read_late(_db: str, table: str) -> list[str]:
        names = read("shop", table)
        known.note(added("parts", "file:/late/3"))
        source.partitions["parts"]["dt=3"] = "file:/late/3"
        return names

    source.partition_names = read_late  # type: ignore[method-assign]
    source.refresh(known, "parts")
    source.partition_names = read  # type: ignore[method-assign]
    (parts,) = source.refresh(known, "parts")
    assert parts.outside == ("file:/late/3", "file:/y/2")


def test_a_location_that_cannot_be_used_is_an_error_of_its_table_only() -> None:
    source, known = a_source(), ExternalTables()
    source.create("bad", "file:/x/../etc")
    found, errors = known.refresh(cast("Metastore", source), "shop", ["bad", "flat"], lambda _: None)
    assert [each.table for each in found] == ["flat"]
    assert [(name, error.code) for name, error in errors.items()] == [("bad", "unsafe-path")]
