"""A bootstrap into an old source keeps its files, and nothing that the new source does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.files.systems.schemes import open_file_systems
from handlers.replication.loading.reuse import detach_tables, has_directories, remove_other_directories
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Database, Table
from state.errors import NotFound, TargetDiverged
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


POLICY = Policy(name="back", source_db="shop_r", target_db="shop")
NAMES = st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("12")), max_size=6)


@given(kept=NAMES, present=NAMES)
def test_directories_of_partitions_that_the_source_lacks_are_removed(
    tmp_path_factory: pytest.TempPathFactory,
    kept: set[tuple[str, str]],
    present: set[tuple[str, str]],
) -> None:
    root = tmp_path_factory.mktemp("table")
    for day, hour in present:
        (root / f"dt={day}" / f"hr={hour}" / "delta_0000001_0000001_0000").mkdir(parents=True)
    names = {f"dt={day}/hr={hour}" for day, hour in kept}
    remove_other_directories(open_file_systems(), f"file:{root}", names)
    left = {(path.parent.name[3:], path.name[3:]) for path in root.glob("dt=*/hr=*")}
    assert left == kept & present
    assert all(
        (root / f"dt={day}" / f"hr={hour}" / "delta_0000001_0000001_0000").exists() for day, hour in left
    )
    assert {path.name[3:] for path in root.iterdir()} <= {day for day, _ in kept}


def test_a_directory_has_leftovers_if_it_has_directories(tmp_path: Path) -> None:
    files = open_file_systems()
    assert not has_directories(files, None)
    assert not has_directories(files, f"file:{tmp_path}/missing")
    (tmp_path / "file").write_bytes(b"")
    assert not has_directories(files, f"file:{tmp_path}")
    (tmp_path / "dt=1").mkdir()
    assert has_directories(files, f"file:{tmp_path}")


def named(name: str, **fields: object) -> Table:
    """Return a table in the directory of its name."""
    values: dict[str, Any] = {"location": f"file:/source/shop.db/{name}", **fields}
    return a_table(name, **values)


def detach(
    tables: dict[str, Table],
    at_source: dict[str, Table],
    *,
    highest: int = 0,
    parameters: dict[str, str] | None = None,
) -> RecordingMetastore:
    """Detach ``tables`` of the target, and return the calls to it."""

    def get_at_source(_db: str, name: str) -> Table:
        if name not in at_source:
            raise NotFound("no such table", name=name)
        return at_source[name]

    source: Any = RecordingMetastore({"get_table": get_at_source, "partition_names": ["dt=1"]})
    target = RecordingMetastore(
        {
            "table_names": list(tables),
            "get_table": lambda _db, name: tables[name],
            "highest_write_id": highest,
            "partition_names": ["dt=1", "dt=2"],
        }
    )
    recorded: Any = target
    database = Database(name="shop", parameters=parameters or {})
    detach_tables(source=source, target=recorded, policy=POLICY, database=database, names=tuple(at_source))
    return target


def drops(target: RecordingMetastore) -> dict[str, bool]:
    """Return the dropped tables, each with whether its files were removed."""
    return {
        call.arguments[1]: call.options["delete_data"] for call in target.calls if call.name == "drop_table"
    }


def test_files_stay_only_of_tables_of_the_same_kind_in_a_directory_of_their_name() -> None:
    plain = {"transactional": "false"}
    found = detach(
        {
            "orders": named("orders"),
            "gone": named("gone"),
            "other": named("other", parameters=plain),
            "moved": named("moved", location="file:/source/shop.db/elsewhere"),
            "external": named("external", kind="EXTERNAL_TABLE", parameters={"EXTERNAL": "TRUE"}),
        },
        {name: named(name) for name in ("orders", "other", "moved", "external")},
    )
    assert drops(found) == {"orders": False, "gone": True, "other": True, "moved": True, "external": False}


def test_partitions_that_the_source_lacks_are_dropped_with_their_files() -> None:
    visits = named("visits", partition_columns=("dt",))
    found = detach({"visits": visits}, {"visits": visits})
    dropped = found.only("drop_partitions")
    assert dropped.arguments[2] == ["dt=2"]
    assert dropped.options["delete_data"]
    assert drops(found) == {"visits": False}


def test_write_ids_are_forgotten_by_dropping_an_empty_table_elsewhere() -> None:
    found = detach({"orders": named("orders")}, {"orders": named("orders")}, highest=7)
    created = found.only("create_table").arguments[0]
    assert created.tableName == "orders"
    assert created.sd.location == "file:/source/shop.db/tideline-detached-orders"
    names = [call.name for call in found.calls]
    assert names[-2:] == ["create_table", "drop_table"]
    assert found.calls[-1].options["delete_data"]


@pytest.mark.parametrize("key", ["repl.last.id", "tideline.epoch", "repl.source.for"])
def test_a_database_that_replication_uses_is_refused(key: str) -> None:
    with pytest.raises(TargetDiverged, match="used by replication"):
        detach({"orders": named("orders")}, {}, parameters={key: "1"})
