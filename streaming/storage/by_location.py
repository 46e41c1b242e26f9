"""The storage that a stream uses: each path by the file system on which it is.

A table and its checkpoint may be on different file systems, for example a table in an object store with its checkpoint on a disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.storage.hadoop import HadoopStorage
from streaming.storage.local_disk import LocalDisk, local_path


if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from streaming.storage.port import Entry, Storage


class StorageByLocation:
    """The ``Storage`` of all paths: ``local`` for paths on the driver's disk, ``remote`` for all others and for copies of data files.

    ``renames`` states whether a table's files are published by a rename; otherwise ``remote`` moves them wherever they are.
    ``local_paths`` states whether a path without a scheme is on the driver's disk, as Hadoop's default file system decides.
    """

    def __init__(
        self, local: LocalDisk, remote: Storage, *, renames: bool = True, local_paths: bool = True
    ) -> None:
        self._local = local
        self._remote = remote
        self._renames = renames
        self._local_paths = local_paths

    def list(self, directory: str) -> Sequence[Entry]:
        """Return the children."""
        return self._of(directory).list(directory)

    def read(self, path: str) -> str | None:
        """Return a small text."""
        return self._of(path).read(path)

    def write(self, path: str, text: str) -> None:
        """Write a small text."""
        self._of(path).write(path, text)

    def create(self, path: str, text: str) -> bool:
        """Write a new small text."""
        return self._of(path).create(path, text)

    def make(self, directory: str) -> None:
        """Create a directory."""
        self._of(directory).make(directory)

    def move(self, source: str, target: str) -> None:
        """Move a file; both paths are on one file system."""
        storage = self._of(source) if self._renames else self._remote
        storage.move(source, target)

    def copy_with_tail(self, source: str, target: str, kept_bytes: int, tail: bytes) -> None:
        """Copy a file with another end. Hadoop verifies the checksum of a local file and writes one for the copy."""
        self._remote.copy_with_tail(source, target, kept_bytes, tail)

    def remove(self, path: str) -> None:
        """Remove a file or a directory."""
        self._of(path).remove(path)

    def is_local(self, path: str) -> bool:
        """Whether the path is on the driver's own disk."""
        return local_path(path) is not None and (self._local_paths or path.startswith("file:"))

    def _of(self, path: str) -> LocalDisk | Storage:
        return self._local if self.is_local(path) else self._remote


def open_storage(spark: SparkSession, *, renames: bool = True) -> StorageByLocation:
    """Return the storage for a session."""
    context: Any = spark.sparkContext
    default = str(context._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))  # noqa: SLF001 - PySpark has no other way to its JVM
    return StorageByLocation(
        LocalDisk(),
        HadoopStorage(spark, renames=renames),
        renames=renames,
        local_paths=default.startswith("file:"),
    )
