"""Directories of the target become equal to those of the source, whatever changes meanwhile."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from handlers.replication.external import directories
from state.errors import Fenced, Interrupted
from tests.unit.handlers.replication.external.conftest import Trees


def test_a_tree_is_copied_with_everything_below_and_only_once(trees: Trees) -> None:
    trees.put("t/a", "1")
    trees.put("t/dt=1/b", "2")
    trees.put("t/dt=1/deep/c", "3")
    trees.put("t/_temporary/d", "4")
    trees.put("t/.hidden", "5")
    first = trees.copy("t")
    assert trees.present() == {"t/a": "1", "t/dt=1/b": "2", "t/dt=1/deep/c": "3"}
    assert (first.copied, first.directories, first.files, first.problems) == (3, 3, 3, [])
    again = trees.copy("t")
    assert (again.copied, again.files) == (0, 3)


def test_equal_files_are_recognized_without_records_and_not_written_again(trees: Trees) -> None:
    trees.put("t/a", "1")
    trees.copy("t")
    before = (trees.target / "t/a").stat()
    trees.store = type(trees.store)()
    assert trees.copy("t").copied == 0
    assert (trees.target / "t/a").stat().st_mtime_ns == before.st_mtime_ns


def test_a_changed_copy_is_replaced_by_the_content_of_the_source(trees: Trees) -> None:
    trees.put("t/a", "1")
    trees.copy("t")
    (trees.target / "t/a").write_text("2")
    assert trees.copy("t").copied == 1
    assert trees.present() == {"t/a": "1"}


def test_a_missing_directory_is_no_problem_and_removes_nothing(trees: Trees) -> None:
    trees.put("t/a")
    trees.put("other/b")
    trees.copy("t", "other")
    shutil.rmtree(trees.source / "t")
    counts = trees.copy("t", "other", "never", delete=True)
    assert (counts.missing, counts.problems, counts.removed) == (2, [], 0)
    assert set(trees.present()) == {"t/a", "other/b"}


def test_a_file_system_that_is_not_mounted_is_a_problem_and_removes_nothing(trees: Trees) -> None:
    trees.put("t/a")
    trees.copy("t")
    shutil.rmtree(trees.source / "t")
    counts = trees.copy("t", delete=True)
    assert [problem.code for problem in counts.problems] == ["files-unavailable"]
    assert set(trees.present()) == {"t/a"}


def test_a_target_that_is_not_mounted_is_a_problem(trees: Trees) -> None:
    trees.put("t/a")
    trees.target.rmdir()
    assert [problem.code for problem in trees.copy("t").problems] == ["files-unavailable"]
    assert not trees.target.exists()


def test_vanished_files_and_directories_are_removed_on_request(trees: Trees) -> None:
    for path in ("t/a", "t/b", "t/dt=1/c", "t/dt=2/d", "t/dt=2/deep/e"):
        trees.put(path)
    trees.copy("t")
    foreign = trees.target / "t/dt=2/foreign"
    foreign.write_text("mine")
    (trees.source / "t/a").unlink()
    shutil.rmtree(trees.source / "t/dt=2")
    assert trees.copy("t").removed == 0
    assert trees.copy("t", delete=True).removed == 3
    assert set(trees.present()) == {"t/b", "t/dt=1/c", "t/dt=2/foreign"}
    assert trees.copy("t", delete=True).removed == 0


def test_the_copy_of_a_table_whose_files_are_replaced_has_no_others(trees: Trees) -> None:
    for path in ("t/a", "t/dt=1/c", "t/dt=2/d"):
        trees.put(path)
    trees.copy("t")
    (trees.target / "t/loaded").write_text("by replay, without a record")
    (trees.target / "t/dt=2/_hidden").write_text("mine")
    (trees.source / "t/a").unlink()
    shutil.rmtree(trees.source / "t/dt=2")
    trees.put("t/b")
    trees.put("other")
    copier = trees.copier()
    copier.copy([replace(trees.tree("t"), is_replaced=True)])
    assert set(trees.present()) == {"t/b", "t/dt=1/c", "t/dt=2/_hidden"}
    shutil.rmtree(trees.source / "t")
    trees.put("u/x")
    copier.copy([replace(trees.tree("t"), is_replaced=True)])
    assert set(trees.present()) == {"t/b", "t/dt=1/c", "t/dt=2/_hidden"}, (
        "a missing directory removes nothing"
    )


@pytest.mark.parametrize("odd", ["back\\slash", "ta\tb", "new\nline", "dt=a\tb/c", os.fsdecode(b"latin\xe9")])
def test_a_name_that_cannot_be_used_is_reported_and_everything_beside_it_is_copied(
    trees: Trees, odd: str
) -> None:
    trees.put("t/a")
    trees.put(f"t/{odd}")
    trees.put("t/dt=1/b")
    trees.put("u/c")
    counts = trees.copy("t", "u")
    assert set(trees.present()) == {"t/a", "t/dt=1/b", "u/c"}
    assert [(problem.directory, problem.code) for problem in counts.problems] == [
        (f"file:{trees.source}/t", "unsafe-path")
    ]
    assert counts.problems[0].reason.isprintable()
    trees.put("t/another\\one")
    assert "and 1 more in this directory" in trees.copy("t", "u").problems[0].reason


@pytest.mark.parametrize(
    "name", ["_date=2024-01-01/a", "p=%2F..%2Fx/a", "p=..%2F..", "100%00", "p=\x85", "p=\u2028"]
)
def test_a_name_that_is_only_unusual_is_copied(trees: Trees, name: str) -> None:
    trees.put(f"t/{name}")
    assert trees.copy("t").problems == []
    assert set(trees.present()) == {f"t/{name}"}


def test_a_file_that_is_being_written_is_copied_when_it_is_complete_and_never_twice(trees: Trees) -> None:
    writing = trees.put("t/a._COPYING_", "1")
    (trees.target / "t").mkdir()
    (trees.target / "t/a._COPYING_").write_text("of an earlier version")
    assert trees.copy("t").files == 0
    writing.rename(trees.source / "t/a")
    assert trees.copy("t").problems == []
    assert trees.present() == {"t/a": "1"}


def in_twos(files: list[tuple[str, int]]) -> list[list[str]]:
    return [[name for name, _ in files[start : start + 2]] for start in range(0, len(files), 2)]


def test_a_file_that_cannot_be_written_does_not_keep_the_others_from_being_copied(
    trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may be too long for the target's file system, for example, or not allowed there."""
    for path in ("t/a", "t/b", "t/c", "t/dt=1/d"):
        trees.put(path)
    (trees.target / "t/b/in the way").mkdir(parents=True)
    monkeypatch.setattr(directories, "cut_batches", in_twos)
    counts = trees.copy("t")
    assert set(trees.present()) == {"t/c", "t/a", "t/dt=1/d"}
    assert [problem.directory for problem in counts.problems] == [f"file:{trees.source}/t"]


def test_a_directory_outside_of_those_that_may_be_read_is_refused(trees: Trees) -> None:
    copier, target = trees.copier(), trees.tree("t").target
    copier.copy([directories.Tree(target, target)])
    assert [problem.code for problem in copier.counts.problems] == ["unsafe-path"]


def test_a_file_that_changes_while_it_is_copied_is_copied_again(
    trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.put("t/a", "old")
    trees.put("t/b", "stays")
    with monkeypatch.context() as patched:
        patched.setattr(directories, "failpoint", lambda _: trees.put("t/a", "new"))
        trees.copy("t")
    assert trees.copy("t").copied == 1
    assert trees.present() == {"t/a": "new", "t/b": "stays"}


def test_a_file_that_vanishes_while_it_is_copied_does_not_stay(
    trees: Trees, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = trees.put("t/a")
    trees.put("t/b")
    with monkeypatch.context() as patched:
        patched.setattr(directories, "failpoint", lambda _: gone.unlink())
        trees.copy("t")
    assert set(trees.present()) == {"t/b"}


def test_a_run_that_is_stopped_continues_where_it_was(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        trees.put(f"t/dt={number:02}/a", str(number))
    done: list[str] = []

    def stop_after_some(name: str) -> None:
        done.append(name)
        if len(done) == 5:
            trees.stopping.set()

    with monkeypatch.context() as patched:
        patched.setattr(directories, "failpoint", stop_after_some)
        with pytest.raises(Interrupted):
            trees.copy("t")
    copied = len(trees.present())
    assert 0 < copied < 20
    trees.stopping.clear()
    assert trees.copy("t").copied == 20 - copied
    assert len(trees.present()) == 20


def test_nothing_is_removed_after_another_instance_took_over(trees: Trees) -> None:
    trees.put("t/a")
    trees.put("t/b")
    trees.copy("t")
    (trees.source / "t/a").unlink()
    trees.held.append(Fenced("another instance"))
    with pytest.raises(Fenced):
        trees.copy("t", delete=True)
    assert set(trees.present()) == {"t/a", "t/b"}
