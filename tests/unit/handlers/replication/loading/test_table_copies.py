"""The files of a loaded table, copied in this process or by a job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from handlers.files.copying.copies import Copier, build_copy_task
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.files.table_listing import ListedFile, TableDirectory
from handlers.replication.loading.table import copies as module
from handlers.replication.loading.table.copies import TableCopies
from handlers.replication.loading.table.snapshot import SnapshotLost
from handlers.replication.loading.table.tools import LoadSettings, LoadTools
from state.errors import FileLost, FilesUnavailable
from tests.builders.replication.loads import RecordedProgress
from tests.builders.replication.local_jobs import LocalJobs


class Load:
    """A table with two partitions and the directory of its replica."""

    def __init__(self, root: Path, pool: CopyPool) -> None:
        self.root = root
        self.pool = pool
        files = open_file_systems({"file": {"fsync": False}})
        self.jobs = LocalJobs(Copier(files, AllowedRoots.of([f"file:{root}/source"])))
        unused: Any = None
        target = cast("Any", SimpleNamespace(guard=lambda: None))
        tools = LoadTools(
            unused, unused, target, files, pool, LoadSettings(), threading.Event(), lambda: None, self.jobs
        )
        self.progress = RecordedProgress()
        self.copies = TableCopies("t", tools, self.progress)
        for path in ("dt=1/a", "dt=1/b", "dt=2/c"):
            file = root / "source" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)
        (root / "target").mkdir()

    def copy(self) -> None:
        self.copies.copy(
            [(self._files(name), f"file:{self.root}/target/{name}") for name in ("dt=1", "dt=2")],
            f"file:{self.root}/target",
        )

    def _files(self, name: str) -> list[ListedFile]:
        directory = TableDirectory(open_file_systems(), f"file:{self.root}/source/{name}")
        return directory.read_files(directory.names)

    def present(self) -> set[str]:
        target = self.root / "target"
        return {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}


ALL = {"dt=1/a", "dt=1/b", "dt=2/c"}


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    copier = Copier(open_file_systems(), AllowedRoots.of([f"file:{tmp_path}/source"]))
    with closing(CopyPool(copier, workers=2)) as pool:
        yield Load(tmp_path, pool)


def test_one_job_copies_the_files_of_all_partitions(load: Load) -> None:
    stray = load.root / "target" / "dt=1" / "stray"
    stray.parent.mkdir()
    stray.write_text("of an earlier try")
    load.copy()
    assert load.present() == ALL
    assert [len(job) for job in load.jobs.ran] == [3]
    assert load.pool.counters().files == 0
    assert (load.progress.files, load.copies.files, load.copies.size_bytes) == (3, 3, 18)


def test_few_files_are_copied_in_this_process(load: Load) -> None:
    load.jobs.files_min = 4
    load.copy()
    assert load.present() == ALL
    assert load.jobs.ran == []


def test_files_of_several_partitions_are_copied_together_and_planned_one_by_one(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    load.jobs.files_min = 4
    calls: list[str] = []

    def record(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(module, "build_copy_task", record("plan", build_copy_task))
    for name in ("submit", "wait"):
        monkeypatch.setattr(load.pool, name, record(name, getattr(load.pool, name)))
    load.copy()
    assert calls == ["plan", "submit"] * 3 + ["wait"]


def test_files_that_a_failed_job_has_copied_are_not_copied_again(load: Load) -> None:
    load.jobs.failing = {"b": FilesUnavailable("the executors were lost")}
    with pytest.raises(FilesUnavailable):
        load.copy()
    load.jobs.failing = {}
    load.copy()
    assert load.present() == ALL
    assert [[uri[-1] for uri in job] for job in load.jobs.ran] == [["a", "b", "c"], ["b"]]


def test_a_file_that_vanished_is_followed_by_a_later_snapshot(load: Load) -> None:
    load.jobs.failing = {"c": FileLost("gone", path="dt=2/c")}
    with pytest.raises(SnapshotLost, match="dt=2/c"):
        load.copy()


def test_directories_of_other_writes_are_removed(load: Load) -> None:
    """An empty base would hide the rows."""
    for name in ("base_0000009", "base_0000009_v0000012", "delta_0000009_0000009_0000", ".hive-staging_x"):
        (load.root / "target" / "dt=1" / name).mkdir(parents=True)
    load.copy()
    assert load.present() == ALL
    assert {each.name for each in (load.root / "target" / "dt=1").iterdir()} == {"a", "b", ".hive-staging_x"}
