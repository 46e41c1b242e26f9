"""Cycles: which directories they copy to where, when they run, and what they report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.filesystems import Entry
from handlers.files.paths import AllowedRoots, Location
from handlers.files.systems.local import LocalFiles
from handlers.replication.external.cycle import DIRECTORY_LIST, CycleProgress, ExternalSettings
from handlers.replication.external.cycle_thread import RETRY_S, ExternalThread
from handlers.replication.external.records import CopyRecords
from handlers.replication.target.long_work import CYCLES_MAX
from handlers.structs.objects import StorageDescriptor, Table
from state.errors import FilesUnavailable, MetastoreUnavailable, StateCorrupt
from state.store.memory import MemoryStore
from state.store.sqlite import SqliteStore
from tests.builders.replication.external import ExternalCopies, Source
from tests.builders.replication.fake_target import Clock, FakedReplica, faked_replica
from tests.builders.replication.spark_tables import a_spark_table
from tests.builders.stores.full_disk import full_disk


class World:
    """A faked replica whose source has external tables below ``ext``, and the target's base ``base``."""

    def __init__(self, root: Path) -> None:
        self.ext, self.base = root / "source/ext", root / "base"
        self.ext.mkdir(parents=True)
        self.base.mkdir()
        self.source = Source()
        self.replica: FakedReplica = faked_replica(root, external_base=f"file:{self.base}")
        self.replica.projection.open()
        self.copies = ExternalCopies(
            self.replica.context,
            ExternalSettings(every_s=60, delete=False, workers=8, list_directory=root / "lists"),
        )

    def create(self, name: str, location: str, content: str | None = "x") -> None:
        self.source.create(name, location)
        self.replica.target.tables[name] = Table(tableName=name, dbName="shop_r", sd=StorageDescriptor())
        if content is not None:
            directory = self.ext / location.rpartition("/ext/")[2]
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "a").write_text(content)

    def run(self) -> CycleProgress:
        pool = self.copies.open_pool()
        cycle = self.copies.build(self.source, self.replica.target, pool)
        cycle.run()
        assert pool.close()
        return cycle.progress

    def allow(self, *roots: str) -> None:
        """Allow reads below these directories."""
        copies = CopyPool(Copier(self.replica.context.files, AllowedRoots.of(roots)), workers=1)
        copies.close()
        self.copies.context = replace(self.replica.context, copies=copies)

    def present(self) -> list[str]:
        below = self.base / str(self.ext).lstrip("/")
        return sorted(str(path.relative_to(below)) for path in below.rglob("*") if path.is_file())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.replica.projection.close()


def test_tables_on_the_target_are_copied_below_the_base_and_listed(world: World) -> None:
    world.create("flat", f"file:{world.ext}/flat")
    world.create("inner", f"file:{world.ext}/flat/inner")
    world.source.create("not_there_yet", f"file:{world.ext}/new")
    progress = world.run()
    assert (progress.tables, progress.directories, progress.is_complete) == (2, 1, True)
    assert world.present() == ["flat/a", "flat/inner/a"]
    listed = (world.copies.settings.list_directory or world.ext) / DIRECTORY_LIST
    assert len(listed.read_text().splitlines()) == 2, "each table has its line"
    records = CopyRecords(world.copies.store)
    assert records.last_complete_s() == int(progress.began_s)


def test_a_cycle_without_changes_asks_the_metastores_once_and_lists_each_directory_once_on_each_side(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        world.create(f"t{number}", f"file:{world.ext}/t{number}")
    world.run()
    world.source.reads.clear()
    world.replica.target.calls.clear()
    listed: list[str] = []
    original = LocalFiles.list

    def count(files: LocalFiles, location: Location) -> Sequence[Entry]:
        listed.append(location.path)
        return original(files, location)

    monkeypatch.setattr(LocalFiles, "list", count)
    progress = world.run()
    assert (world.source.reads, progress.counts.copied) == ([], 0)
    assert len(listed) == 2 * progress.counts.directories == 10


def test_a_table_of_spark_is_copied_from_the_directory_that_spark_reads(world: World) -> None:
    world.create("spark", f"file:{world.ext}/rows")
    world.source.tables["spark"] = a_spark_table(
        "spark",
        location=f"file:{world.ext}/spark-__PLACEHOLDER__",
        path=f"file:{world.ext}/rows",
        provider="csv",
    )
    world.create("moved", f"file:{world.ext}/old")
    world.create("moved", f"file:{world.ext}/new")
    world.source.tables["moved"] = a_spark_table(
        "moved", location=f"file:{world.ext}/new", path=f"file:{world.ext}/old"
    )
    progress = world.run()
    assert (progress.counts.missing, progress.is_complete) == (0, True)
    assert world.present() == ["new/a", "old/a", "rows/a"]


@pytest.mark.parametrize(
    ("parameters", "partitions", "reported"),
    [
        ({"numFiles": "2"}, {}, True),
        ({"spark.sql.statistics.numRows": "7"}, {}, True),
        ({"numFiles": "0", "totalSize": "none"}, {}, False),
        ({"numRows": "2"}, {}, True),
        ({"numRows": "2", "numFiles": "0", "totalSize": "0"}, {}, False),
        ({"numFiles": "0", "totalSize": "0", "spark.sql.statistics.totalSize": "9"}, {}, True),
        ({}, {"dt=1": "below"}, True),
        ({"numFiles": "2"}, {"dt=1": "elsewhere"}, False),
    ],
)
def test_a_missing_directory_of_a_table_with_rows_is_a_problem(
    world: World, parameters: dict[str, str], partitions: dict[str, str], *, reported: bool
) -> None:
    root = f"file:{world.ext}/gone"
    world.create("gone", root, content=None)
    world.create("fine", f"file:{world.ext}/fine")
    table = world.source.create("gone", root, partitioned=bool(partitions))
    table.parameters = parameters
    world.source.partitions["gone"] = {
        name: f"{root}/{name}" if place == "below" else f"file:{world.ext}/fine/{name}"
        for name, place in partitions.items()
    }
    progress = world.run()
    problems = [(each.tables, each.directory, each.code) for each in progress.problems]
    assert problems == ([(("gone",), root, "not-found")] if reported else [])
    assert world.present() == ["fine/a"]


def test_tables_that_are_quarantined_or_being_loaded_are_left_out(world: World) -> None:
    world.create("broken", f"file:{world.ext}/broken")
    world.create("loading", f"file:{world.ext}/loading")
    world.replica.context.tables.quarantine.add("broken", 1, StateCorrupt("no"))
    world.replica.context.tables.loads.request("loading", "repair")
    assert (world.run().tables, world.present()) == (0, [])


def test_directories_that_would_meet_on_the_target_are_not_copied(world: World) -> None:
    world.create("local", f"file:{world.ext}/same")
    world.create("remote", f"hdfs://other{world.ext}/same", content=None)
    world.allow(f"file:{world.ext}", "hdfs://other/")
    world.create("fine", f"file:{world.ext}/fine")
    progress = world.run()
    assert not progress.is_complete
    assert world.present() == ["fine/a"]
    assert sorted(each.tables for each in progress.problems) == [("local",), ("remote",)]
    assert all("also copied to" in each.reason for each in progress.problems)


def test_a_directory_that_may_not_be_read_is_a_problem_of_its_table(world: World) -> None:
    world.create("secret", "file:/etc/secret", content=None)
    world.create("fine", f"file:{world.ext}/fine")
    progress = world.run()
    assert world.present() == ["fine/a"]
    assert [(each.tables, each.code) for each in progress.problems] == [(("secret",), "unsafe-path")]
    assert CopyRecords(world.copies.store).last_complete_s() is None


class Thread(ExternalThread):
    """Cycles of a world, one after another; ``ends`` are the errors of the next ones."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.ends: list[Exception | None] = []
        self.world = world
        source: Any = SimpleNamespace(clone=self._next)
        target: Any = SimpleNamespace(clone=lambda: _Closing(world.replica.target))
        super().__init__(
            replace(world.replica.context, source=source, target=target),
            world.copies.settings,
            CopyRecords(world.copies.store),
            world.copies.open_pool,
            clock=clock,
        )

    def _next(self) -> Any:
        error = self.ends.pop(0) if self.ends else None
        if error is not None:
            raise error
        return _Closing(self.world.source)

    def reason(self) -> str:
        """Return what ended the last cycle early."""
        error = None if self.last is None else self.last.error
        return "" if error is None else f"{error.code}: {error.context} {error}"

    def run_due(self) -> bool:
        """Start a cycle if one is due, and wait for its end; return whether one ran."""
        self.step()
        thread = self._thread
        if thread is not None:
            thread.join(30)
        return thread is not None


class _Closing:
    """A client that may be closed."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def close(self) -> None:
        """Do nothing."""


def test_a_cycle_runs_when_it_is_due_and_sooner_after_a_failure(world: World) -> None:
    world.create("flat", f"file:{world.ext}/flat")
    clock = Clock()
    thread = Thread(world, clock)
    assert thread.run_due()
    assert thread.last is not None
    assert thread.last.is_complete, thread.last.error
    assert not thread.run_due(), "the next one is due after every_s"
    clock.now_s += 60
    thread.ends = [MetastoreUnavailable("down")]
    assert thread.run_due()
    assert "metastore-unavailable" in thread.reason()
    clock.now_s += RETRY_S
    assert thread.run_due()
    assert thread.reason() == ""
    totals = thread.totals()
    assert (totals.cycles, totals.copied, totals.size_bytes) == (2, 1, 1)
    thread.close()


def test_a_cycle_uses_its_records_again_once_their_disk_has_space(world: World, tmp_path: Path) -> None:
    world.copies.store = SqliteStore(tmp_path / "external-shop.db", schema_version=1)
    world.create("flat", f"file:{world.ext}/flat")
    thread = Thread(world, Clock())
    with full_disk(64), pytest.raises(FilesUnavailable):
        CopyRecords(world.copies.store).complete(1)
    thread.run_due()
    assert thread.last is not None
    assert thread.last.is_complete, thread.last.problems
    thread.close()


def test_a_list_of_directories_that_cannot_be_written_is_named(world: World) -> None:
    blocked = world.copies.settings.list_directory
    assert blocked is not None
    blocked.write_text("a file where the directory should be")
    thread = Thread(world, Clock())
    thread.run_due()
    assert thread.reason().startswith("files-unavailable")
    assert str(blocked / DIRECTORY_LIST) in thread.reason()


def test_the_time_of_the_last_complete_cycle_survives_a_restart(world: World) -> None:
    world.create("flat", f"file:{world.ext}/flat")
    first = Thread(world, Clock())
    complete = [first.last_complete_s]
    first.run_due()
    complete.append(first.last_complete_s)
    assert complete[0] is None
    assert complete[1] is not None
    assert Thread(world, Clock()).last_complete_s == complete[1]


def test_an_unexpected_error_ends_the_cycle_and_not_the_process(world: World) -> None:
    thread = Thread(world, Clock())
    thread.ends = [RuntimeError("a defect")]
    thread.run_due()
    assert "a defect" in thread.reason()


def test_a_damaged_time_of_the_last_complete_cycle_is_reported() -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(b"complete", b"yesterday")
    with pytest.raises(StateCorrupt):
        CopyRecords(cast("Any", store)).last_complete_s()


def test_a_cycle_begins_when_those_of_other_policies_leave_a_place(world: World) -> None:
    thread, places = Thread(world, Clock()), world.replica.context.long_work.cycles
    assert [places.take() for _ in range(CYCLES_MAX + 1)] == [True] * CYCLES_MAX + [False]
    assert not thread.run_due()
    places.leave()
    assert thread.run_due()
    assert places.take(), "the cycle that ended has left its place"
