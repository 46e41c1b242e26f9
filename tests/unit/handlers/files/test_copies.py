from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask, build_copy_task
from handlers.files.filesystems import PROCESS_TOKEN, TEMPORARY_PREFIX, FileSystems, sweep
from handlers.files.paths import AllowedRoots, Location, parse_location
from handlers.files.systems.local import LocalFiles, LocalReader, LocalWriter
from handlers.files.systems.schemes import open_file_systems
from state.errors import Fenced, FileLost, FilesUnavailable, Refused, UnsafePath
from tests.builders.replication.warehouse import DELTA, Warehouse, path_of


NAME = f"{DELTA}/bucket_00000_0"
HDFS_CHECKSUM = "00" * 28


class Meddling(LocalFiles):
    """The local file system, with a hook that runs when a file was opened for reading."""

    def __init__(self, when_opened: Callable[[Location], None]) -> None:
        super().__init__(fsync=False)
        self._when_opened = when_opened

    def open(self, location: Location) -> LocalReader:
        reader = super().open(location)
        self._when_opened(location)
        return reader


def meddling(when_opened: Callable[[Location], None]) -> FileSystems:
    return FileSystems({"file": lambda _authority, _options: Meddling(when_opened)})


def test_a_copy_that_its_guard_refuses_does_not_appear(warehouse: Warehouse) -> None:
    def refuse() -> None:
        raise Fenced("another instance took over")

    copier = Copier(open_file_systems(), warehouse.allowed(), guard=refuse)
    with pytest.raises(Fenced):
        copier.copy(warehouse.task(warehouse.wrote()))
    assert warehouse.target_files() == {}


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("size_bytes", [0, 1, 1024 * 1024, 1024 * 1024 + 1, 3_000_000])
def test_a_file_appears_complete_in_the_directory_of_its_write_id(
    warehouse: Warehouse, size_bytes: int, checksum: bool
) -> None:
    content = os.urandom(size_bytes)
    copied = warehouse.copier().copy(warehouse.task(warehouse.wrote(content, checksum=checksum)))
    assert (copied.size_bytes, copied.skipped, copied.from_change_manager) == (size_bytes, False, False)
    assert warehouse.target_files() == {NAME: content}


def test_the_visibility_suffix_is_dropped_on_the_target(warehouse: Warehouse) -> None:
    warehouse.copier().copy(warehouse.task(warehouse.wrote(subdir="base_0000005_v0000012")))
    assert list(warehouse.target_files()) == ["base_0000005/bucket_00000_0"]


def test_a_plain_tables_file_lies_directly_in_the_table(warehouse: Warehouse) -> None:
    warehouse.copier().copy(warehouse.task(warehouse.wrote(name="000000_0", subdir="")))
    assert list(warehouse.target_files()) == ["000000_0"]


@pytest.mark.parametrize("checksum", [True, False])
def test_copying_again_writes_nothing(warehouse: Warehouse, checksum: bool) -> None:
    task = warehouse.task(warehouse.wrote(checksum=checksum))
    warehouse.copier().copy(task)
    before = (warehouse.target / NAME).stat()
    assert warehouse.copier().copy(task).skipped
    after = (warehouse.target / NAME).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_copied_file_is_kept_when_source_and_change_manager_lose_it(
    warehouse: Warehouse,
) -> None:
    source = warehouse.wrote()
    warehouse.copier().copy(warehouse.task(source))
    path_of(source).unlink()
    assert warehouse.copier().copy(warehouse.task(source)).skipped


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("present", [b"", b"half", b"ROWS!", b"much longer than it should be"])
def test_a_wrong_target_file_is_replaced(warehouse: Warehouse, present: bytes, checksum: bool) -> None:
    (warehouse.target / DELTA).mkdir(parents=True)
    (warehouse.target / NAME).write_bytes(present)
    warehouse.copier().copy(warehouse.task(warehouse.wrote(b"rows!", checksum=checksum)))
    assert warehouse.target_files() == {NAME: b"rows!"}


def test_a_deleted_source_file_comes_from_the_change_manager_under_its_own_name(warehouse: Warehouse) -> None:
    source = warehouse.wrote(b"old rows")
    path_of(source).unlink()
    warehouse.recycled(source, b"old rows")
    assert warehouse.copier().copy(warehouse.task(source)).from_change_manager
    assert warehouse.target_files() == {NAME: b"old rows"}


def test_a_source_file_with_other_content_comes_from_the_change_manager(warehouse: Warehouse) -> None:
    source = warehouse.wrote(b"old rows")
    warehouse.recycled(source, b"old rows")
    path_of(source).write_bytes(b"new rows")
    copied = warehouse.copier().copy(warehouse.task(source))
    assert (copied.from_change_manager, copied.mismatches) == (True, 1)
    assert warehouse.target_files() == {NAME: b"old rows"}


def test_a_corrupt_copy_in_the_change_manager_is_never_published(warehouse: Warehouse) -> None:
    source = warehouse.wrote(b"old rows")
    warehouse.recycled(source, b"bad rows")
    path_of(source).unlink()
    with pytest.raises(FileLost) as caught:
        warehouse.copier().copy(warehouse.task(source))
    assert caught.value.context["differing"] == 2
    assert warehouse.target_files() == {}


@pytest.mark.parametrize("checksum", [True, False])
def test_a_file_missing_in_both_locations_is_lost_and_leaves_no_file(
    warehouse: Warehouse, checksum: bool
) -> None:
    source = warehouse.wrote(checksum=checksum)
    path_of(source).unlink()
    with pytest.raises(FileLost) as caught:
        warehouse.copier().copy(warehouse.task(source))
    assert "repl.cm.retain" in str(caught.value)
    assert warehouse.target_files() == {}


def test_a_changed_source_file_without_a_copy_in_the_change_manager_is_lost(warehouse: Warehouse) -> None:
    source = warehouse.wrote(b"old rows")
    path_of(source).write_bytes(b"new rows")
    with pytest.raises(FileLost):
        warehouse.copier().copy(warehouse.task(source))


def test_a_source_file_deleted_while_it_is_copied_is_still_copied(warehouse: Warehouse) -> None:
    source = warehouse.wrote(b"rows" * 1_000_000)
    files = meddling(
        lambda location: path_of(source).unlink(missing_ok=True) if "source" in location.path else None
    )
    copied = warehouse.copier(files).copy(warehouse.task(source))
    assert not copied.from_change_manager
    assert warehouse.target_files() == {NAME: b"rows" * 1_000_000}


@pytest.mark.parametrize("checksum", [True, False])
def test_a_source_file_that_shrinks_while_it_is_copied_is_not_published(
    warehouse: Warehouse, checksum: bool
) -> None:
    source = warehouse.wrote(b"rows" * 1_000_000, checksum=checksum)
    shrink = iter([True])

    def meddle(_: Location) -> None:
        if next(shrink, False):
            os.truncate(path_of(source), 100)

    if checksum:
        with pytest.raises(FileLost):
            warehouse.copier(meddling(meddle)).copy(warehouse.task(source))
        assert warehouse.target_files() == {}
    else:
        copied = warehouse.copier(meddling(meddle)).copy(warehouse.task(source))
        assert (copied.size_bytes, copied.mismatches) == (100, 1)


def test_a_source_file_that_keeps_changing_is_unavailable_not_lost(warehouse: Warehouse) -> None:
    source = warehouse.wrote(checksum=False)
    counted = iter(range(100))

    def meddle(_: Location) -> None:
        path_of(source).write_bytes(b"x" * (10 + next(counted)))

    with pytest.raises(FilesUnavailable, match="changes during the copy"):
        warehouse.copier(meddling(meddle)).copy(warehouse.task(source))
    assert warehouse.target_files() == {}


def test_a_replaced_file_whose_checksum_cannot_be_recomputed_comes_from_the_change_manager(
    warehouse: Warehouse,
) -> None:
    source = warehouse.wrote(b"new rows")
    source = SourceFile(source.uri, HDFS_CHECKSUM, source.cm_root, source.subdir)
    warehouse.recycled(source, b"old rows")
    assert warehouse.copier().copy(warehouse.task(source)).from_change_manager
    assert warehouse.target_files() == {NAME: b"old rows"}


def test_a_file_recycled_while_its_successor_is_copied_is_noticed(warehouse: Warehouse) -> None:
    source = warehouse.wrote(b"new rows")
    source = SourceFile(source.uri, HDFS_CHECKSUM, source.cm_root, source.subdir)

    def recycle(opened: Location) -> None:
        if "source" in opened.path:
            warehouse.recycled(source, b"old rows")

    files = meddling(recycle)
    copied = warehouse.copier(files).copy(warehouse.task(source))
    assert (copied.from_change_manager, copied.mismatches) == (True, 1)
    assert warehouse.target_files() == {NAME: b"old rows"}


@pytest.mark.parametrize(
    ("uri", "cm_root"), [("file:/etc/passwd", None), (None, "file:/etc"), ("file:/x/../etc/passwd", None)]
)
def test_names_from_events_cannot_be_read_outside_the_allowed_directories(
    warehouse: Warehouse, uri: str | None, cm_root: str | None
) -> None:
    good = warehouse.wrote()
    hostile = SourceFile(uri or good.uri, good.checksum, cm_root or good.cm_root, good.subdir)
    with pytest.raises(UnsafePath):
        warehouse.copier().copy(CopyTask(hostile, f"file:{warehouse.target}/f"))
    assert warehouse.target_files() == {}


@pytest.mark.parametrize("subdir", ["../../other", "/etc", "delta_5_5/../..", "file:/x"])
def test_names_from_events_cannot_be_written_outside_the_table(warehouse: Warehouse, subdir: str) -> None:
    with pytest.raises(UnsafePath):
        build_copy_task(SourceFile("file:/w/t/f", subdir=subdir), f"file:{warehouse.target}")


def test_a_symbolic_link_at_the_source_is_not_followed(warehouse: Warehouse) -> None:
    source = warehouse.wrote()
    secret = warehouse.root / "secret"
    secret.write_bytes(b"secret")
    path_of(source).unlink()
    path_of(source).symlink_to(secret)
    with pytest.raises(UnsafePath):
        warehouse.copier().copy(warehouse.task(source))
    assert warehouse.target_files() == {}


def test_unfinished_files_of_a_killed_process_are_removed_and_those_of_this_process_are_kept(
    warehouse: Warehouse,
) -> None:
    (warehouse.target / DELTA).mkdir(parents=True)
    dead = warehouse.target / DELTA / f"{TEMPORARY_PREFIX}00000000_0123456789abcdef"
    ours = warehouse.target / DELTA / f"{TEMPORARY_PREFIX}{PROCESS_TOKEN}_0123456789abcdef"
    dead.touch()
    ours.touch()
    copier = warehouse.copier()
    copier.copy(warehouse.task(warehouse.wrote()))
    assert not dead.exists()
    assert ours.exists()
    dead.touch()
    assert sweep(copier._file_systems, parse_location(f"file:{warehouse.target / DELTA}")) == 1
    assert sweep(copier._file_systems, parse_location(f"file:{warehouse.root / 'absent'}")) == 0


def test_a_cancelled_copy_stops_and_leaves_no_file(warehouse: Warehouse) -> None:
    cancelled = threading.Event()
    files = meddling(lambda _: cancelled.set())
    with pytest.raises(FilesUnavailable, match="cancelled"):
        warehouse.copier(files).copy(
            warehouse.task(warehouse.wrote(b"rows" * 1_000_000)), cancelled=cancelled
        )
    assert warehouse.target_files() == {}


def in_child(act: Callable[[], None], expected: type[Exception]) -> None:
    """Run ``act`` in a forked process, where limits and user ids do not outlive the test, and require
    ``expected``."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
        except expected:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def shared_warehouse() -> Iterator[Warehouse]:
    """A warehouse that another user can reach, which pytest's own directories are not."""
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as rehearsed:
        rehearse(Warehouse(Path(rehearsed)))
        Path(root).chmod(0o755)  # noqa: S103 - read access is what the tests are about
        yield Warehouse(Path(root))


def rehearse(warehouse: Warehouse) -> None:
    """Copy with all rights, so that Python has loaded what it loads at first use (codecs) from where nobody
    may read."""
    recycled = warehouse.wrote()
    warehouse.recycled(recycled, b"rows")
    path_of(recycled).unlink()
    assert warehouse.copier().copy(warehouse.task(recycled)).from_change_manager


def as_nobody(act: Callable[[], object]) -> Callable[[], None]:
    """Run ``act`` as a user who is subject to permissions."""

    def run() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        act()

    return run


def test_a_denied_source_file_without_another_copy_is_unavailable_not_lost(
    shared_warehouse: Warehouse,
) -> None:
    source = shared_warehouse.wrote()
    path_of(source).chmod(0)
    shared_warehouse.target.mkdir(parents=True, mode=0o777)
    shared_warehouse.target.chmod(0o777)
    in_child(
        as_nobody(lambda: shared_warehouse.copier().copy(shared_warehouse.task(source))), FilesUnavailable
    )


def test_a_denied_source_file_comes_from_the_change_manager(shared_warehouse: Warehouse) -> None:
    source = shared_warehouse.wrote()
    shared_warehouse.recycled(source, b"rows")
    path_of(source).chmod(0)
    shared_warehouse.target.mkdir(parents=True)
    shared_warehouse.target.chmod(0o777)

    def act() -> None:
        assert shared_warehouse.copier().copy(shared_warehouse.task(source)).from_change_manager
        raise Refused("reached")

    in_child(as_nobody(act), Refused)


def test_a_target_that_denies_writing_is_unavailable(shared_warehouse: Warehouse) -> None:
    source = shared_warehouse.wrote()
    shared_warehouse.target.mkdir(parents=True)
    shared_warehouse.target.chmod(0o555)
    in_child(
        as_nobody(lambda: shared_warehouse.copier().copy(shared_warehouse.task(source))), FilesUnavailable
    )
    assert shared_warehouse.target_files() == {}


@pytest.mark.parametrize("checksum", [True, False])
def test_a_full_target_is_unavailable_and_left_clean(warehouse: Warehouse, checksum: bool) -> None:
    task = warehouse.task(warehouse.wrote(b"rows" * 1_000_000, checksum=checksum))

    def act() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))
        warehouse.copier().copy(task)

    in_child(act, FilesUnavailable)
    assert warehouse.target_files() == {}


def test_a_target_directory_dropped_meanwhile_is_unavailable_not_missing(warehouse: Warehouse) -> None:
    class Dropping(LocalFiles):
        def create(self, location: Location, size_bytes: int) -> LocalWriter:
            writer = super().create(location, size_bytes)
            shutil.rmtree(location.parent.path)
            return writer

    files = FileSystems({"file": lambda _authority, _options: Dropping(fsync=False)})
    with pytest.raises(FilesUnavailable, match="vanished"):
        warehouse.copier(files).copy(warehouse.task(warehouse.wrote()))


def test_a_directory_in_place_of_the_source_file_is_refused(warehouse: Warehouse) -> None:
    source = warehouse.wrote()
    path_of(source).unlink()
    path_of(source).mkdir()
    with pytest.raises(Refused):
        warehouse.copier().copy(warehouse.task(source))


def test_a_target_that_is_a_directory_is_refused(warehouse: Warehouse) -> None:
    source = warehouse.wrote()
    (warehouse.target / NAME).mkdir(parents=True)
    with pytest.raises(Refused):
        warehouse.copier().copy(warehouse.task(source))


def test_attempts_are_bounded(warehouse: Warehouse) -> None:
    source = warehouse.wrote()
    opened: list[Location] = []
    files = FileSystems({"file": lambda _authority, _options: Meddling(opened.append)})
    path_of(source).write_bytes(b"other")
    with pytest.raises(FileLost):
        Copier(files, warehouse.allowed(), attempts_max=3).copy(warehouse.task(source))
    assert len(opened) == 2


Move = st.sampled_from(["copy", "recycle", "overwrite", "delete", "damage target", "delete target", "forget"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(Move, max_size=8))
def test_the_target_has_the_recorded_content_or_an_error_was_raised(
    tmp_path_factory: pytest.TempPathFactory, moves: list[str]
) -> None:
    warehouse = Warehouse(tmp_path_factory.mktemp("model"))
    source = warehouse.wrote(b"recorded")
    target = warehouse.target / NAME
    kept = warehouse.cm_root / f"bucket_00000_0_{source.checksum}"
    present = {"source": True, "cm": False, "target": False}
    for move in [*moves, "copy"]:
        match move:
            case "copy":
                if any(present.values()):
                    warehouse.copier().copy(CopyTask(source, f"file:{target}"))
                    present["target"] = True
                    assert warehouse.target_files() == {NAME: b"recorded"}
                else:
                    with pytest.raises(FileLost):
                        warehouse.copier().copy(CopyTask(source, f"file:{target}"))
            case "recycle" if present["source"]:
                warehouse.recycled(source, b"recorded")
                path_of(source).unlink()
                present.update(source=False, cm=True)
            case "overwrite":
                path_of(source).write_bytes(b"replaced")
                present["source"] = False
            case "delete":
                path_of(source).unlink(missing_ok=True)
                present["source"] = False
            case "damage target" if target.exists():
                target.write_bytes(b"dam")
                present["target"] = False
            case "delete target":
                target.unlink(missing_ok=True)
                present["target"] = False
            case "forget":
                kept.unlink(missing_ok=True)
                present["cm"] = False


def test_nothing_may_be_read_without_an_allow_list(warehouse: Warehouse) -> None:
    source = warehouse.wrote()
    with pytest.raises(UnsafePath):
        Copier(meddling(lambda _: None), AllowedRoots()).copy(warehouse.task(source))
