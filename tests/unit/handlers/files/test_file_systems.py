from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.filesystems import OPEN_MAX, TEMPORARY_PREFIX, FileSystem, FileSystems
from handlers.files.listing import list_plain_files
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.arrow import BUFFERED_BYTES_MAX, ArrowFiles
from handlers.files.systems.local import LocalFiles
from handlers.files.systems.schemes import open_file_systems, to_bucket_path
from state.errors import (
    ConfigError,
    FilesUnavailable,
    InvalidRequest,
    NotFound,
    Refused,
    TidelineError,
    UnsafePath,
    Unsupported,
)


LARGE = BUFFERED_BYTES_MAX + 1


def renaming(root: Path) -> ArrowFiles:
    return ArrowFiles(
        pafs.SubTreeFileSystem(str(root), pafs.LocalFileSystem()),
        lambda location: location.path,
        object_store=False,
    )


def object_store(root: Path) -> ArrowFiles:
    (root / "bucket").mkdir(exist_ok=True)
    return ArrowFiles(
        pafs.SubTreeFileSystem(str(root), pafs.LocalFileSystem()), to_bucket_path, object_store=True
    )


@pytest.fixture(params=["local", "renaming", "object store"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and the URI of an empty directory on it."""
    if request.param == "local":
        return LocalFiles(fsync=True), f"file:{tmp_path}"
    if request.param == "renaming":
        return renaming(tmp_path), "hdfs://nn"
    return object_store(tmp_path), "s3a://bucket"


def put(files: FileSystem, uri: str, content: bytes) -> None:
    with files.create(parse_location(uri), len(content)) as writer:
        writer.write(memoryview(content))
        writer.publish()


def get(files: FileSystem, uri: str) -> bytes:
    buffer = memoryview(bytearray(1 << 16))
    content = bytearray()
    with files.open(parse_location(uri)) as reader:
        while filled := reader.readinto(buffer):
            content += buffer[:filled]
    return bytes(content)


@pytest.mark.parametrize("size_bytes", [0, 5, LARGE])
def test_a_published_file_is_read_back(files: tuple[FileSystem, str], size_bytes: int) -> None:
    system, root = files
    content = bytes(size_bytes)
    put(system, f"{root}/f", content)
    assert get(system, f"{root}/f") == content
    assert system.stat(parse_location(f"{root}/f")).size_bytes == size_bytes
    assert [(entry.name, entry.is_directory) for entry in system.list(parse_location(f"{root}/"))] == [
        ("f", False)
    ]


def test_a_file_replaces_one_of_the_same_name_and_an_unpublished_one_leaves_no_trace(
    files: tuple[FileSystem, str],
) -> None:
    system, root = files
    put(system, f"{root}/f", b"old")
    with system.create(parse_location(f"{root}/f"), 3) as writer:
        writer.write(memoryview(b"new"))
    assert get(system, f"{root}/f") == b"old"
    put(system, f"{root}/f", b"new")
    assert get(system, f"{root}/f") == b"new"
    assert [entry.name for entry in system.list(parse_location(f"{root}/"))] == ["f"]


def test_an_unfinished_file_has_a_name_that_hive_hides(tmp_path: Path) -> None:
    for system, root in ((LocalFiles(), f"file:{tmp_path}/l"), (renaming(tmp_path), "hdfs://nn/r")):
        with system.create(parse_location(f"{root}/f"), 1) as writer:
            writer.write(memoryview(b"x"))
            (entry,) = system.list(parse_location(root))
            assert entry.name.startswith(TEMPORARY_PREFIX)
        assert list(system.list(parse_location(root))) == []


def test_missing_files_and_directories_are_not_found(files: tuple[FileSystem, str]) -> None:
    system, root = files
    absent = parse_location(f"{root}/absent")
    for call in (system.stat, system.open, system.list):
        with pytest.raises(NotFound):
            call(absent)
    system.remove(absent)


def test_a_directory_is_not_a_file(files: tuple[FileSystem, str], tmp_path: Path) -> None:
    system, root = files
    (tmp_path / "bucket" / "d").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    with pytest.raises(Refused):
        system.stat(parse_location(f"{root}/d"))
    with pytest.raises(TidelineError):
        system.open(parse_location(f"{root}/d"))


def test_a_removed_file_is_not_found(files: tuple[FileSystem, str]) -> None:
    system, root = files
    put(system, f"{root}/f", b"x")
    system.remove(parse_location(f"{root}/f"))
    with pytest.raises(NotFound):
        system.stat(parse_location(f"{root}/f"))


def test_a_directory_is_made_with_its_parents_and_keeps_what_it_has(files: tuple[FileSystem, str]) -> None:
    system, root = files
    place = parse_location(f"{root}/t/n=2/dt=x%2Fy")
    system.make_directory(place)
    assert list(system.list(place)) == []
    put(system, f"{place}/f", b"x")
    system.make_directory(place)
    assert [entry.name for entry in system.list(place)] == ["f"]


def test_a_directory_is_not_made_in_the_place_of_a_file(files: tuple[FileSystem, str]) -> None:
    system, root = files
    put(system, f"{root}/f", b"x")
    with pytest.raises(TidelineError):
        system.make_directory(parse_location(f"{root}/f/d"))


class Failing:
    """Stands for a library that fails in a given way."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        def fail(*_arguments: object, **_named: object) -> None:
            raise self._error

        return fail


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError("x"), NotFound),
        (PermissionError(13, "Permission denied"), FilesUnavailable),
        (
            OSError(
                "When reading information for key 'k': AWS Error ACCESS_DENIED during HeadObject operation"
            ),
            FilesUnavailable,
        ),
        (OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7"), FilesUnavailable),
        (OSError("HDFS list directory failed: AccessControlException"), FilesUnavailable),
        (pa.ArrowInvalid("bad\npath"), InvalidRequest),
        (pa.ArrowNotImplementedError("no"), Unsupported),
        (IsADirectoryError(21, "Is a directory"), Refused),
        (TimeoutError("slow"), FilesUnavailable),
    ],
)
def test_errors_of_the_library_become_errors_of_the_tree(error: Exception, expected: type[Exception]) -> None:
    system = ArrowFiles(Failing(error), to_bucket_path, object_store=True)
    place = parse_location("s3a://bucket/k")
    calls: list[Callable[[], object]] = [
        lambda: system.stat(place),
        lambda: system.list(place),
        lambda: system.open(place),
        lambda: system.create(place, LARGE),
    ]
    for call in calls:
        with pytest.raises(expected) as caught:
            call()
        assert "\n" not in str(caught.value)
    if not isinstance(error, FileNotFoundError):
        with pytest.raises(expected):
            system.remove(place)


def test_a_symbolic_link_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    for call in (LocalFiles().stat, LocalFiles().open):
        with pytest.raises(UnsafePath):
            call(parse_location(f"{tmp_path}/link"))
    assert [entry.name for entry in LocalFiles().list(parse_location(str(tmp_path)))] == ["real"]


def test_files_cross_from_one_file_system_to_another(tmp_path: Path) -> None:
    for name in ("hdfs", "s3"):
        (tmp_path / name).mkdir()
    systems = FileSystems(
        {
            "hdfs": lambda _authority, _options: renaming(tmp_path / "hdfs"),
            "s3a": lambda _authority, _options: object_store(tmp_path / "s3"),
            "file": lambda _authority, _options: LocalFiles(fsync=False),
        }
    )
    put(systems.of(parse_location("hdfs://nn/t/f")), "hdfs://nn/t/f", b"rows")
    copier = Copier(systems, AllowedRoots.of(["hdfs://nn/t", "s3a://bucket"]))
    copier.copy(CopyTask(SourceFile("hdfs://nn/t/f"), "s3a://bucket/f"))
    task = CopyTask(SourceFile("s3a://bucket/f"), f"file:{tmp_path}/local/f")
    assert not copier.copy(task).skipped
    assert copier.copy(task).skipped
    assert (tmp_path / "local" / "f").read_bytes() == b"rows"
    assert list_plain_files(systems, "hdfs://nn/t") == (SourceFile("hdfs://nn/t/f"),)


def test_an_unknown_scheme_and_wrong_options_are_configuration_errors() -> None:
    with pytest.raises(ConfigError):
        open_file_systems().of(parse_location("ftp://host/a"))
    with pytest.raises(ConfigError):
        open_file_systems({"ftp": {}})
    with pytest.raises(ConfigError):
        open_file_systems({"file": {"fsync": "yes"}}).of(parse_location("/a"))
    with pytest.raises(ConfigError):
        open_file_systems({"s3a": {"no_such_option": 1}}).of(parse_location("s3a://bucket/a"))


def test_a_name_service_that_no_setting_defines_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="cannot be opened"):
        open_file_systems().of(parse_location("hdfs://warehouse/a"))


def test_a_file_system_is_opened_once_per_authority() -> None:
    systems = open_file_systems()
    assert systems.of(parse_location("/a")) is systems.of(parse_location("/b"))


def test_only_the_file_systems_used_last_stay_open() -> None:
    opened: list[str] = []

    def start(authority: str, _options: object) -> Any:
        opened.append(authority)
        return object()

    systems = FileSystems({"hdfs": start})
    for number in range(OPEN_MAX + 1):
        systems.of(parse_location(f"hdfs://n{number}/a"))
        systems.of(parse_location("hdfs://used/a"))
    assert len(opened) == OPEN_MAX + 2
    systems.of(parse_location("hdfs://n0/a"))
    assert opened[-1] == "n0"
    assert opened.count("used") == 1


def test_hadoops_checksums_of_a_local_file_that_is_replaced_or_removed_are_removed(tmp_path: Path) -> None:
    """Hadoop writes ``.NAME.crc`` beside a local file, and refuses to read other content under the name."""
    files = LocalFiles()
    place = parse_location(f"file:{tmp_path}/bucket_00000_0")
    for change in ("replaced", "removed"):
        (tmp_path / "bucket_00000_0").write_bytes(b"old")
        (tmp_path / ".bucket_00000_0.crc").write_bytes(b"crc of old")
        if change == "removed":
            files.remove(place)
        else:
            with files.create(place, 3) as writer:
                writer.write(memoryview(b"new"))
                writer.publish()
        assert not (tmp_path / ".bucket_00000_0.crc").exists(), change
