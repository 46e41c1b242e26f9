"""SET LOCATION, and overwrites whose files are gone: what plain tables show afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handlers.events import Inserted, PartitionsAdded, PartitionsAltered, SourceFile
from handlers.replication.context import Context
from handlers.replication.effects import partitions, tables
from handlers.replication.effects.files import plain_files
from handlers.replication.target.table_cache import TableCache
from handlers.structs.objects import Partition, SkewedInfo, StorageDescriptor, Table
from state.errors import FileLost, UnsafePath
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table, changed, created, embedded


PLAIN: dict[str, str] = {}
HEADER: dict[str, Any] = {"event_id": 5, "time_s": 0, "db": "shop", "table": "orders"}


class Sides:
    """A plain table with directories on both sides, and a target that applies what it is sent."""

    def __init__(self, replica: FakedReplica, **table: Any) -> None:
        self.replica = replica
        self.table: Table = a_table(location=f"file:{self.on_target}", **table)
        self.partition = a_partition(f"file:{self.on_target}/dt=1")
        self.at_source("another_table")  # an empty directory would look as if it were not mounted
        self.metastore = RecordingMetastore(
            {
                "get_table": lambda *_: self.table.copy(),
                "get_partitions": lambda *_: [self.partition.copy()],
                "alter_table": self._alter_table,
                "alter_partitions": self._alter_partitions,
            }
        )
        target: Any = self.metastore
        self.context: Context = replace(
            replica.context, target=target, table_cache=TableCache(target, replica.context.policy)
        )

    @property
    def on_target(self) -> Path:
        return self.replica.target.warehouse / "orders"

    def _alter_table(self, _db: str, _name: str, table: Table) -> None:
        self.table = table

    def _alter_partitions(self, _db: str, _name: str, changed: list[Partition]) -> None:
        (self.partition,) = changed

    def at_source(self, name: str, content: bytes = b"rows") -> str:
        """Write a file at the source and return its URI; ``name`` is its path below the source's
        directory."""
        path = self.replica.directory / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return f"file:{path}"

    def source(self, name: str) -> str:
        return f"file:{self.replica.directory}/source/{name}"

    def put(self, name: str, content: bytes = b"old") -> None:
        """Write a file of the target's table."""
        (self.on_target / name).parent.mkdir(parents=True, exist_ok=True)
        (self.on_target / name).write_bytes(content)

    def shown(self, item: Table | Partition) -> list[str]:
        """Return the files in the location of a table or partition on the target."""
        root = (item.sd.location or "").removeprefix("file:")
        files = self.replica.files_on_target()
        below = root.removeprefix(f"{self.replica.target.warehouse}/")
        return [name.removeprefix(below + "/") for name in files if name.startswith(below + "/")]


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Callable[..., Sides]]:
    made: list[FakedReplica] = []

    def build(*, external_base: str | None = None, **table: Any) -> Sides:
        made.append(faked_replica(tmp_path, external_base=external_base))
        return Sides(made[-1], **{"parameters": PLAIN, **table})

    yield build
    for replica in made:
        replica.projection.close()


def moved_table(old: str, new: str, **table: Any) -> Any:
    fields = {"parameters": PLAIN, **table}
    return changed(5, a_table(location=old, **fields), a_table(location=new, **fields))


def overwrite(*files: SourceFile, owner: Table) -> Inserted:
    return Inserted(
        **HEADER, kind="INSERT", owner=embedded(owner), partition=None, spec=None, replace=True, files=files
    )


# --- overwrites ---


def test_an_overwrite_whose_files_are_gone_does_not_empty_the_table(sides: Callable[..., Sides]) -> None:
    """Files that were removed without Hive must not take the replica's rows with them."""
    both = sides(kind="EXTERNAL_TABLE")
    both.put("old")
    owner = a_table(location=both.source("orders"), parameters=PLAIN, kind="EXTERNAL_TABLE")
    gone = SourceFile(both.source("orders/gone"))
    plain_files.insert(overwrite(gone, owner=owner), both.context)
    assert both.shown(both.table) == ["old"], "the source has no directory"
    (both.replica.directory / "source" / "orders").mkdir(parents=True)
    plain_files.insert(overwrite(gone, owner=owner), both.context)
    assert both.shown(both.table) == ["old"], "the source's directory is empty"


def test_an_overwrite_that_was_overwritten_since_shows_what_the_source_has_now(
    sides: Callable[..., Sides],
) -> None:
    both = sides(kind="EXTERNAL_TABLE")
    both.put("old")
    both.at_source("orders/later")
    owner = a_table(location=both.source("orders"), parameters=PLAIN, kind="EXTERNAL_TABLE")
    plain_files.insert(overwrite(SourceFile(both.source("orders/gone")), owner=owner), both.context)
    assert both.shown(both.table) == ["later"]


def test_an_overwrite_without_rows_empties_the_table(sides: Callable[..., Sides]) -> None:
    both = sides(kind="EXTERNAL_TABLE")
    both.put("old")
    plain_files.insert(overwrite(owner=a_table(location=both.source("orders"))), both.context)
    assert both.shown(both.table) == []


def test_a_lost_file_of_a_managed_overwrite_removes_nothing(sides: Callable[..., Sides]) -> None:
    both = sides()
    both.put("old")
    with pytest.raises(FileLost):
        plain_files.insert(
            overwrite(SourceFile(both.source("orders/gone")), owner=a_table(location=both.source("orders"))),
            both.context,
        )
    assert both.shown(both.table) == ["old"]


# --- tables ---


def test_a_moved_external_table_is_moved_below_the_base_with_its_data(
    sides: Callable[..., Sides], tmp_path: Path
) -> None:
    both = sides(external_base=f"file:{tmp_path}/target", kind="EXTERNAL_TABLE")
    both.put("old")
    both.at_source("b/new")
    both.at_source("b/HIVE_UNION_SUBDIR_1/new")
    event = moved_table(both.source("a"), both.source("b"), kind="EXTERNAL_TABLE")
    tables.alter(event, both.context)
    assert both.table.sd.location == f"file:{tmp_path}/target{tmp_path}/source/b"
    assert both.shown(both.table) == ["HIVE_UNION_SUBDIR_1/new", "new"]
    assert (both.on_target / "old").exists(), "its data does not belong to Hive"


def test_a_table_that_its_rename_moved_is_placed_below_the_base_again(
    sides: Callable[..., Sides], tmp_path: Path
) -> None:
    """The target's metastore moves a renamed table that owns its data to its own default directory."""
    owning: dict[str, Any] = {"kind": "EXTERNAL_TABLE", "parameters": {"external.table.purge": "true"}}
    both = sides(external_base=f"file:{tmp_path}/target", **owning)
    both.put("old")
    both.at_source("b/new")
    event = moved_table(both.source("a"), both.source("b"), **owning)
    event = replace(event, after=embedded(a_table("bought", location=both.source("b"), **owning)))
    source: Any = RecordingMetastore({"current_event_id": 9})
    tables.alter(event, replace(both.context, source=source))
    assert both.table.sd.location == f"file:{tmp_path}/target{tmp_path}/source/b"
    assert both.shown(both.table) == ["new"]
    assert not (both.on_target / "old").exists()


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("MANAGED_TABLE", PLAIN), ("EXTERNAL_TABLE", {"external.table.purge": "true"})],
)
def test_a_moved_table_without_a_base_gets_a_directory_of_its_own(
    sides: Callable[..., Sides], kind: str, parameters: dict[str, str]
) -> None:
    both = sides(kind=kind, parameters=parameters)
    both.put("old")
    both.at_source("b/new")
    there = moved_table(both.source("a"), both.source("b"), kind=kind, parameters=parameters)
    tables.alter(there, both.context)
    first = both.table.sd.location
    assert first is not None
    assert first.startswith(f"file:{both.on_target}__at_")
    assert both.shown(both.table) == ["new"]
    assert not (both.on_target / "old").exists(), "a later table of this name must not show it"
    both.at_source("b/later")
    tables.alter(there, both.context)
    assert (both.table.sd.location, both.shown(both.table)) == (first, ["new"]), (
        "a repeated event does nothing"
    )
    both.at_source("c/third")
    tables.alter(
        moved_table(both.source("b"), both.source("c"), kind=kind, parameters=parameters), both.context
    )
    assert both.shown(both.table) == ["third"]
    assert str(both.table.sd.location).count("__at_") == 1


def test_files_that_a_table_had_in_its_new_directory_before_are_not_shown(
    sides: Callable[..., Sides], tmp_path: Path
) -> None:
    both = sides(external_base=f"file:{tmp_path}/target", kind="EXTERNAL_TABLE")
    both.at_source("b/new")
    stale = tmp_path / "target" / str(tmp_path).lstrip("/") / "source" / "b" / "stale"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"stale")
    tables.alter(moved_table(both.source("a"), both.source("b"), kind="EXTERNAL_TABLE"), both.context)
    assert both.shown(both.table) == ["new"]


def test_the_directories_of_skewed_values_follow_the_table(sides: Callable[..., Sides]) -> None:
    both = sides()
    before, after = a_table(location=both.source("a")), a_table(location=both.source("a"), parameters=PLAIN)
    after.sd.skewedInfo = SkewedInfo(
        skewedColValueLocationMaps={
            ("7",): both.source("a/id=7"),
            ("8",): "hdfs://elsewhere/id=8",
        }
    )
    tables.alter(changed(5, before, after), both.context)
    skewed = both.table.sd.skewedInfo
    assert skewed is not None
    assert skewed.skewedColValueLocationMaps == {("7",): f"file:{both.on_target}/id=7"}


# --- partitions ---


def a_partition(location: str) -> Partition:
    return Partition(
        values=["1"],
        dbName="shop",
        tableName="orders",
        sd=StorageDescriptor(location=location),
        parameters={},
    )


def altered_to(both: Sides, location: str, before: str | None = None) -> PartitionsAltered:
    """Return an ALTER_PARTITIONS; with ``before`` an ALTER_PARTITION."""
    owner = a_table(
        location=both.source("orders"), parameters=PLAIN, partition_columns=("dt",), kind="EXTERNAL_TABLE"
    )
    return PartitionsAltered(
        **HEADER,
        kind="ALTER_PARTITION",
        owner=embedded(owner),
        after=(embedded(a_partition(location)),),
        before=None if before is None else embedded(a_partition(before)),
    )


@pytest.mark.parametrize("with_base", [True, False])
def test_a_moved_partition_shows_its_new_directory_and_returns(
    sides: Callable[..., Sides], tmp_path: Path, *, with_base: bool
) -> None:
    """ALTER_PARTITIONS has no earlier state; the target's location alone shows whether the partition was
    moved."""
    base = f"file:{tmp_path}/target" if with_base else None
    both = sides(external_base=base, kind="EXTERNAL_TABLE", partition_columns=("dt",))
    default = both.source("orders/dt=1")
    if with_base:
        both.partition.sd.location = f"{base}{tmp_path}/source/orders/dt=1"
    at_first = both.partition.sd.location
    partitions.alter(altered_to(both, default), both.context)
    assert both.partition.sd.location == at_first
    both.at_source("orders/dt=1/old")
    both.at_source("elsewhere/new")
    partitions.alter(altered_to(both, both.source("elsewhere")), both.context)
    assert both.shown(both.partition) == ["new"]
    moved_to = both.partition.sd.location
    partitions.alter(altered_to(both, both.source("elsewhere")), both.context)
    assert both.partition.sd.location == moved_to
    partitions.alter(altered_to(both, default), both.context)
    assert (both.partition.sd.location, both.shown(both.partition)) == (at_first, ["old"])


def test_an_added_partition_in_another_directory_is_not_taken_for_a_moved_one(
    sides: Callable[..., Sides],
) -> None:
    both = sides(kind="EXTERNAL_TABLE", partition_columns=("dt",))
    both.at_source("elsewhere/f")
    event = altered_to(both, both.source("elsewhere"))
    added = PartitionsAdded(**HEADER, kind="ADD_PARTITION", owner=event.owner, partitions=event.after)
    both.metastore.answers["add_partitions"] = both._alter_partitions
    partitions.add(added, both.context)
    placed = both.partition.sd.location
    assert both.shown(both.partition) == ["f"]
    partitions.alter(event, both.context)
    assert both.partition.sd.location == placed


# --- paths ---


@pytest.mark.parametrize("bad", ["hdfs://s/../user/x", "hdfs://s/a/../b"])
def test_no_unsafe_location_is_sent_to_the_target(
    sides: Callable[..., Sides], tmp_path: Path, bad: str
) -> None:
    both = sides(external_base=f"file:{tmp_path}/target", kind="EXTERNAL_TABLE", partition_columns=("dt",))
    external: dict[str, Any] = {"kind": "EXTERNAL_TABLE", "parameters": PLAIN}
    added = PartitionsAdded(
        **HEADER, kind="ADD_PARTITION", owner=None, partitions=(embedded(a_partition(bad)),)
    )
    skewed = a_table(location=both.source("a"), parameters=PLAIN)
    skewed.sd.skewedInfo = SkewedInfo(skewedColValueLocationMaps={("7",): bad})
    attempts: list[Callable[[], None]] = [
        lambda: tables.create(created(5, location=bad, **external), both.context),
        lambda: tables.alter(moved_table(both.source("a"), bad, kind="EXTERNAL_TABLE"), both.context),
        lambda: tables.alter(changed(5, a_table(location=both.source("a")), skewed), both.context),
        lambda: partitions.add(added, both.context),
        lambda: partitions.alter(altered_to(both, bad), both.context),
    ]
    for attempt in attempts:
        with pytest.raises(UnsafePath):
            attempt()
    sent = {"create_table", "alter_table", "add_partitions", "alter_partitions"}
    assert sent.isdisjoint(both.metastore.names())


def test_a_directory_outside_the_allowed_roots_is_not_moved_to(sides: Callable[..., Sides]) -> None:
    both = sides(kind="EXTERNAL_TABLE")
    with pytest.raises(UnsafePath):
        tables.alter(moved_table(both.source("a"), "file:/etc", kind="EXTERNAL_TABLE"), both.context)
    assert "alter_table" not in both.metastore.names()
