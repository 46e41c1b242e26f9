"""External tables whose files change without any event, on real metastores;
rows are compared through the SQL engine.

The same tests run on HDFS (``tests/hdfs``) and from HDFS into an object store, with another fixture ``lake``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.files.paths import parse_location
from state.store.memory import MemoryStore
from tests.builders.replication.lake import Lake, open_lake
from tests.builders.replication.replica import files_below
from tests.builders.replication.stepped_loads import SteppedLoads


@pytest.fixture(scope="module")
def lake(
    source: ClusterEndpoints, target: ClusterEndpoints, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    with open_lake(source, target, tmp_path_factory.mktemp("lists")) as made:
        yield made


def test_files_that_other_programs_write_reach_the_target_without_any_event(lake: Lake) -> None:
    first = lake.copies.run()
    assert first.is_complete, first.problems
    assert f"{lake.root}/absent" in first.counts.missing_roots, "a missing directory of a table is no error"
    flat, parts = "select id, item from {db}.flat", "select id, dt from {db}.parts"
    assert lake.rows(flat) == [("1", "pen"), ("2", "ink")]
    assert lake.rows(parts) == [("1", "a"), ("2", "b")]
    before = lake.replica.source.current_event_id()
    lake.put("flat/b.txt", "3,nib")
    lake.put("flat/a.txt", "1,PEN", "2,INK")
    lake.put("parts/dt=a/two.txt", "11")
    lake.put("old/b/one.txt", "22")
    second = lake.copies.run()
    assert (second.counts.copied, second.counts.removed, second.is_complete) == (4, 0, True)
    logged = [event for event in lake.replica.events(before) if event.db == lake.replica.policy.source_db]
    assert logged == [], "the source knows nothing of it"
    assert lake.rows(flat) == [("1", "PEN"), ("2", "INK"), ("3", "nib")]
    assert lake.rows(parts) == [("1", "a"), ("11", "a"), ("22", "b")]
    third = lake.copies.run()
    assert (third.counts.copied, third.counts.size_bytes) == (0, 0)
    assert third.counts.files >= 5
    again = replace(lake.copies, store=MemoryStore())
    assert again.run().counts.copied == 0, "equal bytes are not written again if the records are lost"


def test_a_partition_outside_of_its_table_follows_it_below_the_base_and_is_listed(lake: Lake) -> None:
    lake.put("spread/dt=a/one.txt", "1")
    lake.put("far/b/one.txt", "2")
    lake.run("create external table {db}.spread (id int) partitioned by (dt string) location '{root}/spread'")
    lake.run("alter table {db}.spread add partition (dt='a') partition (dt='b') location '{root}/far/b'")
    lake.replica.follow()
    lake.copies.run()
    place = lake.replica.target.get_partition(lake.replica.policy.target_db, "spread", ["b"]).sd.location
    assert place == lake.target_of("far/b")
    assert lake.listed("absent") == [f"{lake.root}/absent"]
    assert lake.listed("spread") == [f"{lake.root}/spread", f"{lake.root}/far/b"]
    lake.put("moved/c/one.txt", "33")
    lake.run("alter table {db}.spread add partition (dt='c') location '{root}/moved/c'")
    lake.run("alter table {db}.spread drop partition (dt='b')")
    lake.replica.follow()
    lake.put("moved/c/two.txt", "34")
    assert lake.copies.run().is_complete
    assert lake.rows("select id, dt from {db}.spread") == [("1", "a"), ("33", "c"), ("34", "c")]
    assert lake.listed("spread") == [f"{lake.root}/spread", f"{lake.root}/moved/c"]


def test_a_file_that_vanished_at_the_source_is_removed_only_on_request(lake: Lake) -> None:
    lake.put("gone/a.txt", "1")
    lake.put("gone/b.txt", "2")
    lake.run("create external table {db}.gone (id int) location '{root}/gone'")
    lake.replica.follow()
    lake.copies.run()
    lake.remove("gone/a.txt")
    lake.write(lake.target_of("gone/foreign.txt"), "4\n")
    assert lake.copies.run().counts.removed == 0
    rows = f"select id from {lake.replica.policy.target_db}.gone"
    assert sorted(lake.target_sql.rows(rows)) == [("1",), ("2",), ("4",)]
    deleting = replace(lake.copies, settings=replace(lake.copies.settings, delete=True))
    assert deleting.run().counts.removed == 1
    assert sorted(lake.target_sql.rows(rows)) == [("2",), ("4",)], "a file that Tideline did not copy stays"


def test_a_table_that_moves_gets_the_files_of_its_new_directory(lake: Lake) -> None:
    lake.put("first/a.txt", "1")
    lake.put("second/a.txt", "2")
    lake.run("create external table {db}.nomad (id int) location '{root}/first'")
    lake.replica.follow()
    lake.copies.run()
    lake.run("alter table {db}.nomad set location '{root}/second'")
    lake.put("second/b.txt", "3")
    assert lake.copies.run().is_complete, "replay has not moved the table yet"
    lake.replica.follow()
    lake.put("second/c.txt", "4")
    lake.copies.run()
    assert lake.rows("select id from {db}.nomad") == [("2",), ("3",), ("4",)]


def test_a_table_that_moves_to_a_directory_that_does_not_exist_is_no_problem(lake: Lake) -> None:
    lake.run("create external table {db}.emptied (id int) location '{root}/emptied'")
    lake.run("insert into {db}.emptied values (1), (2)")
    lake.replica.follow()
    assert lake.copies.run().is_complete
    lake.run("alter table {db}.emptied set location '{root}/nowhere'")
    moved = lake.replica.source.get_table(lake.replica.policy.source_db, "emptied")
    assert (moved.parameters or {})["numRows"] == "2", "Hive keeps this count"
    lake.replica.follow()
    progress = lake.copies.run()
    assert progress.is_complete, progress.problems


def test_rows_of_hive_itself_and_of_others_are_there_once(lake: Lake) -> None:
    """Hive logs its own INSERT with files, and the copy finds the same files: none is there twice."""
    lake.put("shared/other.txt", "2")
    lake.run("create external table {db}.shared (id int) location '{root}/shared'")
    lake.replica.follow()
    lake.run("insert overwrite table {db}.shared select 5")
    lake.copies.run()
    lake.replica.follow()
    assert lake.rows("select id from {db}.shared") == [("5",)]
    lake.put("shared/other.txt", "6")
    lake.copies.run()
    assert lake.rows("select id from {db}.shared") == [("5",), ("6",)]


def test_files_that_are_being_written_and_unusual_directories_are_copied_as_readers_see_them(
    lake: Lake, request: pytest.FixtureRequest
) -> None:
    """``hadoop fs -put`` renames a file when it is complete, and so does Flume; Spark writes a partition of
    the column ``_date``."""
    lake.put("fed/a.txt", "1")
    lake.put("fed/b.txt._COPYING_", "2")
    lake.put("fed/c.txt.tmp", "3")
    odd = "days/_date=2024-01-01/ta\tb" if lake.root.startswith("file:") else None
    if odd:
        file = Path(parse_location(lake.root).path) / odd
        file.parent.mkdir(parents=True)
        file.write_text("6\n")
        request.addfinalizer(file.unlink)  # other tests of the lake require that all files are copied
    lake.put("days/_date=2024-01-01/d.txt", "4")
    lake.put("days/_date=%2F..%2Fx/\x85.txt", "5")
    lake.run("create external table {db}.fed (id int) location '{root}/fed'")
    lake.run(
        "create external table {db}.days (id int) partitioned by (`_date` string) location '{root}/days'"
    )
    lake.run("alter table {db}.days add partition (`_date`='2024-01-01') partition (`_date`='/../x')")
    lake.replica.follow()
    first = lake.copies.run()
    assert [problem.tables for problem in first.problems] == ([("days",)] if odd else []), first.problems
    assert lake.replica.quarantined() == {}
    lake.remove("fed/b.txt._COPYING_")
    lake.remove("fed/c.txt.tmp")
    lake.put("fed/b.txt", "2", "22")
    lake.put("fed/c.txt", "3", "33")
    lake.copies.run()
    assert lake.rows("select id from {db}.fed") == [(row,) for row in ("1", "2", "22", "3", "33")]
    found = files_below(lake.target_of("days"), lake.replica.files)
    assert set(found) == {"_date=2024-01-01/d.txt", "_date=%2F..%2Fx/\x85.txt"}, "Hive itself skips them"
    lake.replica.projection.loads.request(["days"], "repair")
    SteppedLoads(lake.replica).finish()
    assert set(files_below(lake.target_of("days"), lake.replica.files)) == set(found)
    names = lake.replica.target.partition_names(lake.replica.policy.target_db, "days")
    assert sorted(names) == ["_date=%2F..%2Fx", "_date=2024-01-01"]
