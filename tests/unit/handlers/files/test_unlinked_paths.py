"""Symbolic links on the local file system: none below a trusted root is followed, whatever is done."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots, Location, parse_location
from handlers.files.systems import unlinked_paths
from handlers.files.systems.local import LocalFiles, open_local
from handlers.files.systems.schemes import open_file_systems
from handlers.files.systems.unlinked_paths import DIRECTORY, open_at_once, open_by_component
from state.errors import ConfigError, TidelineError, UnsafePath


@pytest.fixture(params=["one call", "by component"], autouse=True)
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to open a path; the second one serves old kernels."""
    chosen = open_at_once if request.param == "one call" else open_by_component
    monkeypatch.setattr(unlinked_paths, "_opener", lambda: chosen)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse in which someone has put links to a directory outside of it."""
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "secret").write_text("secret")
    root = tmp_path / "warehouse"
    (root / "t").mkdir(parents=True)
    (root / "t" / "f").write_text("rows")
    (root / "t" / "p=1").symlink_to(tmp_path / "outside")
    (root / "t" / "dangling").symlink_to(tmp_path / "nowhere")
    return root


def at(path: Path | str) -> Location:
    return parse_location(f"file:{path}")


def put(files: LocalFiles, location: Location) -> None:
    with files.create(location, 1) as writer:
        writer.write(b"x")
        writer.publish()


CALLS: list[Callable[[LocalFiles, Location], object]] = [
    LocalFiles.stat,
    LocalFiles.open,
    put,
    LocalFiles.make_directory,
    LocalFiles.remove,
    LocalFiles.remove_tree,
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("below", ["secret", "deep/x"])
@pytest.mark.parametrize("trusted", [False, True])
def test_no_call_goes_through_a_link_in_the_path(
    call: Callable[[LocalFiles, Location], object], below: str, trusted: bool, warehouse: Path, tmp_path: Path
) -> None:
    files = LocalFiles()
    if trusted:
        files.trust(at(warehouse))
    with pytest.raises(UnsafePath):
        call(files, at(warehouse / "t" / "p=1" / below))
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    assert list((tmp_path / "outside" / "deep").iterdir()) == []


@pytest.mark.parametrize("call", [LocalFiles.stat, LocalFiles.list, LocalFiles.open, LocalFiles.settle])
@pytest.mark.parametrize("name", ["p=1", "dangling"])
def test_a_link_at_the_end_of_the_path_is_not_followed(
    call: Callable[[LocalFiles, Location], object], name: str, warehouse: Path
) -> None:
    with pytest.raises(UnsafePath):
        call(LocalFiles(), at(warehouse / "t" / name))


def test_nothing_is_created_behind_a_dangling_link(warehouse: Path, tmp_path: Path) -> None:
    for call in (put, LocalFiles.make_directory):
        with pytest.raises(UnsafePath):
            call(LocalFiles(), at(warehouse / "t" / "dangling" / "x"))
    assert not (tmp_path / "nowhere").exists()


def test_removing_a_directory_removes_links_in_it_and_not_what_they_lead_to(
    warehouse: Path, tmp_path: Path
) -> None:
    LocalFiles().remove_tree(at(warehouse / "t"))
    assert list(warehouse.iterdir()) == []
    assert (tmp_path / "outside" / "secret").read_text() == "secret"


def test_removing_what_does_not_exist_does_nothing(warehouse: Path) -> None:
    for path in ("none", "none/none", "t/f/none"):
        LocalFiles().remove(at(warehouse / path))
        LocalFiles().remove_tree(at(warehouse / path))


def test_the_path_of_a_trusted_root_may_contain_links(warehouse: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(warehouse)
    files = LocalFiles()
    files.trust(at(link))
    assert {entry.name for entry in files.list(at(link))} == {"t"}
    assert files.stat(at(link / "t" / "f")).size_bytes == 4
    put(files, at(link / "new" / "n=1" / "f"))
    assert (warehouse / "new" / "n=1" / "f").read_text() == "x"
    files.remove_tree(at(link / "new"))
    assert not (warehouse / "new").exists()
    with pytest.raises(UnsafePath):
        files.stat(at(link / "t" / "p=1" / "secret"))
    link.unlink()
    link.symlink_to(tmp_path / "outside")  # an operator has moved the root
    assert {entry.name for entry in files.list(at(link))} == {"deep", "secret"}


def test_an_inner_root_may_be_a_link_of_its_own(warehouse: Path) -> None:
    files = open_local("", {"trusted_roots": f"{warehouse}, {warehouse}/t/p=1"})
    assert files.stat(at(warehouse / "t" / "p=1" / "secret")).size_bytes == 6


def test_the_roots_that_may_be_read_are_trusted_by_copies(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(warehouse)
    copier = Copier(open_file_systems(), AllowedRoots.of([f"file:{tmp_path}/link"]))
    copier.copy(CopyTask(SourceFile(f"file:{tmp_path}/link/t/f"), f"file:{tmp_path}/out/f"))
    assert (tmp_path / "out" / "f").read_text() == "rows"
    with pytest.raises(UnsafePath):
        copier.copy(CopyTask(SourceFile(f"file:{tmp_path}/link/t/p=1/secret"), f"file:{tmp_path}/out/g"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["f"]


def test_a_root_stays_trusted_when_its_file_system_is_opened_again(warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(warehouse)
    systems = FileSystems({"file": open_local})
    systems.trust([at(tmp_path / "link"), parse_location("hdfs://nn/warehouse")])
    assert systems.of(at(warehouse)).stat(at(tmp_path / "link" / "t" / "f")).size_bytes == 4


def test_a_directory_that_becomes_a_link_while_a_file_is_written_changes_nothing(
    warehouse: Path, tmp_path: Path
) -> None:
    with LocalFiles().create(at(warehouse / "t" / "new"), 1) as writer:
        writer.write(b"x")
        (warehouse / "t").rename(warehouse / "moved")
        (warehouse / "t").symlink_to(tmp_path / "outside")
        writer.publish()
    assert not (tmp_path / "outside" / "new").exists()
    assert (warehouse / "moved" / "new").read_text() == "x"


def test_no_descriptor_stays_open(warehouse: Path) -> None:
    files, before = LocalFiles(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for name in ("t/f", "t/p=1/secret", "none/none", "t/f/x", "t"):
        for call in (*CALLS[2:], LocalFiles.stat, LocalFiles.list, LocalFiles.settle):
            with suppress(TidelineError):
                call(files, at(warehouse / name))
        with suppress(TidelineError), files.open(at(warehouse / name)):
            pass
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH, DIRECTORY])
@pytest.mark.parametrize(
    "path", ["t", "t/f", "t/p=1", "t/p=1/deep", "t/dangling", "t/f/x", "none", "none/x", ""]
)
def test_both_ways_agree(path: str, flags: int, warehouse: Path) -> None:
    def outcome(opened: Callable[[int, str, int], int]) -> object:
        above = os.open(warehouse, DIRECTORY)
        try:
            fd = opened(above, path or ".", flags)
        except OSError as error:
            return error.errno
        else:
            found = os.fstat(fd).st_ino
            os.close(fd)
            return found
        finally:
            os.close(above)

    assert outcome(open_at_once) == outcome(open_by_component)


FORBIDDEN = """
import ctypes, sys
from handlers.files.systems import unlinked_paths
unlinked_paths._OPENAT2 = 100_000
print(unlinked_paths._opener().__name__)
"""


def test_a_kernel_without_the_call_opens_by_component() -> None:
    done = subprocess.run([sys.executable, "-c", FORBIDDEN], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == open_by_component.__name__


def test_a_link_is_an_error_of_the_kernel_and_not_a_missing_file(warehouse: Path) -> None:
    with pytest.raises(OSError, match=r".") as caught:
        unlinked_paths.TrustedRoots().open(str(warehouse / "t" / "p=1" / "deep"), DIRECTORY)
    assert caught.value.errno == errno.ELOOP


def test_trusted_roots_must_be_text() -> None:
    with pytest.raises(ConfigError):
        open_local("", {"trusted_roots": 1})
