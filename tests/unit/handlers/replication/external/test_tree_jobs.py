"""Cycles whose files are many are copied by jobs; what is recorded and reported is the same."""

from __future__ import annotations

import pytest

from handlers.files.copying.copies import Copier
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.external import trees as trees_module
from state.errors import FileLost, FilesUnavailable
from tests.builders.replication.local_jobs import LocalJobs
from tests.unit.handlers.replication.external.conftest import Trees


@pytest.fixture
def jobs(trees: Trees) -> LocalJobs:
    files = open_file_systems({"file": {"fsync": False}})
    trees.jobs = made = LocalJobs(Copier(files, AllowedRoots.of([f"file:{trees.source}"])))
    return made


def test_one_job_copies_the_files_of_all_directories_and_the_next_cycle_none(
    trees: Trees, jobs: LocalJobs
) -> None:
    for path in ("t/a", "t/dt=1/b", "t/dt=1/deep/c", "u/d"):
        trees.put(path, path)
    counts = trees.copy("t", "u")
    assert trees.present() == {path: path for path in ("t/a", "t/dt=1/b", "t/dt=1/deep/c", "u/d")}
    assert [len(job) for job in jobs.ran] == [4]
    assert (counts.copied, counts.files, counts.size_bytes, counts.problems) == (4, 4, 27, [])
    assert trees.pool.counters().files == 0
    assert trees.copy("t", "u").copied == 0
    assert len(jobs.ran) == 1


def test_few_files_are_copied_without_a_job(trees: Trees, jobs: LocalJobs) -> None:
    jobs.files_min = 3
    trees.put("t/a")
    trees.put("t/dt=1/b")
    assert trees.copy("t").copied == 2
    assert jobs.ran == []
    assert trees.pool.counters().files == 2


def test_a_job_gets_no_more_files_than_memory_allows(
    trees: Trees, jobs: LocalJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees_module, "BATCH_FILES_MAX", 4)
    for number in range(10):
        trees.put(f"t/dt={number}/a")
        trees.put(f"t/dt={number}/b")
    assert trees.copy("t").copied == 20
    assert [len(job) for job in jobs.ran] == [4] * 5


def test_a_file_that_changes_during_the_job_is_copied_again(trees: Trees, jobs: LocalJobs) -> None:
    trees.put("t/a", "old")
    trees.put("t/b", "stays")
    jobs.after = lambda: trees.put("t/a", "new!")
    trees.copy("t")
    jobs.after = lambda: None
    assert trees.copy("t").copied == 1
    assert trees.present() == {"t/a": "new!", "t/b": "stays"}


def test_files_that_a_job_could_not_copy_are_problems_of_their_directories(
    trees: Trees, jobs: LocalJobs
) -> None:
    for path in ("t/a", "t/bad", "u/c", "v/gone"):
        trees.put(path)
    jobs.failing = {"bad": FilesUnavailable("executors lost"), "gone": FileLost("gone")}
    counts = trees.copy("t", "u", "v")
    assert [(each.directory, each.code) for each in counts.problems] == [
        (f"file:{trees.source}/t", "files-unavailable")
    ]
    assert set(trees.present()) == {"t/a", "u/c"}
    jobs.failing = {}
    assert trees.copy("t", "u", "v").copied == 2


def test_vanished_files_are_removed_on_request_also_with_jobs(trees: Trees, jobs: LocalJobs) -> None:
    trees.put("t/a")
    trees.put("t/dt=1/b")
    trees.copy("t")
    (trees.source / "t/a").unlink()
    trees.put("t/dt=2/c")
    counts = trees.copy("t", delete=True)
    assert (counts.removed, counts.copied) == (1, 1)
    assert set(trees.present()) == {"t/dt=1/b", "t/dt=2/c"}
