"""Files on a disk, on HDFS or in the object store of the tests, read and written without Tideline's code and
without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

from handlers.files.paths import parse_location
from tests.builders.components.object_store import TestStore


class Directory(Protocol):
    """A directory that may not exist yet; all paths are relative to it."""

    def files(self) -> list[str]:
        """Return the paths of all files below it, sorted."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def write(self, path: str, content: bytes) -> None:
        """Create a file that appears with its whole content."""


def open_directory(uri: str) -> Directory:
    """Return the directory at an absolute path, or at a URI with the scheme ``file``, ``hdfs`` or ``s3a``."""
    location = parse_location(uri)
    if location.scheme == "hdfs":
        return _HdfsDirectory(f"hdfs://{location.authority}", location.path)
    if location.scheme == "file":
        return _LocalDirectory(Path(location.path))
    assert location.scheme == "s3a", uri
    return _StoreDirectory(f"{location.authority}{location.path}".rstrip("/"))


def orc_files(uri: str) -> Iterator[tuple[str, Any]]:
    """Yield the path below ``uri`` and the rows, a ``pyarrow.Table``, of every ORC file."""
    import pyarrow as pa
    from pyarrow import orc

    directory = open_directory(uri)
    for path in directory.files():
        if path.endswith(".orc"):
            yield path, orc.ORCFile(pa.BufferReader(directory.read(path))).read()


class _LocalDirectory:
    def __init__(self, root: Path) -> None:
        self._root = root

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self._root)) for path in self._root.rglob("*") if path.is_file())

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def write(self, path: str, content: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}")
        hidden.write_bytes(content)
        hidden.rename(target)


class _HdfsDirectory:
    def __init__(self, system: str, root: str) -> None:
        import hdfs_native

        self._client, self._root = hdfs_native.Client(system), root

    def files(self) -> list[str]:
        try:
            found = [
                each.path for each in self._client.list_status(self._root, recursive=True) if not each.isdir
            ]
        except FileNotFoundError:
            return []
        return sorted(path[len(self._root) + 1 :] for path in found)

    def read(self, path: str) -> bytes:
        with self._client.read(f"{self._root}/{path}") as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        import hdfs_native

        folder, _, name = f"{self._root}/{path}".rpartition("/")
        hidden = f"{folder}/.{name}"
        options = hdfs_native.WriteOptions(overwrite=True, create_parent=True)
        with self._client.create(hidden, options) as file:
            file.write(content)
        self._client.rename(hidden, f"{folder}/{name}")


class _StoreDirectory:
    def __init__(self, root: str) -> None:
        import pyarrow.fs

        store = TestStore.named()
        assert store is not None
        self._root, self._system = root, cast("Any", pyarrow.fs.S3FileSystem(**store.arrow))

    def files(self) -> list[str]:
        import pyarrow.fs

        selector = pyarrow.fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        found = [each.path for each in self._system.get_file_info(selector) if each.is_file]
        return sorted(path[len(self._root) + 1 :] for path in found)

    def read(self, path: str) -> bytes:
        with self._system.open_input_file(f"{self._root}/{path}") as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        with self._system.open_output_stream(f"{self._root}/{path}", compression=None) as file:
            file.write(content)
