"""The storage of a stream: Hadoop's file systems, through Spark's JVM and settings, and the driver's own
disk.

Tables and checkpoints may be anywhere Spark can write, and Hadoop can move everything that Spark has written.
(``handlers.files`` copies between clusters without a JVM and has no moves.)

On a file system with renames, a move is one rename. On an object store, a rename is a copy on the server
followed by a removal, and a crash in between leaves both. In that case the copy is complete, because an
object appears only when it is complete, so a repeated move only removes the source.

Whether a small record is written to a temporary name and renamed, or written in place, depends on its own
location: a checkpoint may be on HDFS while its table is in an object store. ``open_storage`` therefore
chooses for each path.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from state.errors import AlreadyExists, FileLost, FilesUnavailable, NotFound
from streaming.settings import has_renames
from streaming.storage.local_disk import LocalDisk, local_path
from streaming.storage.port import StorageEntry


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from streaming.storage.port import Storage


class HadoopStorage:
    """Storage through ``org.apache.hadoop.fs`` in the JVM of a Spark session. ``renames`` says whether a move
    is one step.
    """

    def __init__(self, spark: SparkSession, *, renames: bool = True) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
        self._gateway = context._gateway  # noqa: SLF001 - likewise
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001 - likewise
        self._renames = renames

    def list(self, directory: str) -> Sequence[StorageEntry]:
        """Return the children with a single call, because each call to an object store takes time."""
        try:
            with _errors(directory, report_missing=True):
                path, files = self._open(directory)
                return sorted(
                    StorageEntry(each.getPath().getName(), bool(each.isDirectory()), int(each.getLen()))
                    for each in files.listStatus(path)
                    if not each.getPath().getName().endswith(".crc")
                )
        except NotFound:
            return ()

    def read(self, path: str) -> str | None:
        """Return a small text."""
        try:
            with _errors(path, report_missing=True):
                resolved, files = self._open(path)
                stream = files.open(resolved)
                try:
                    return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
        except NotFound:
            return None

    def write(self, path: str, text: str) -> None:
        """Write to a temporary name and rename; on an object store write in place, which is atomic there."""
        if not has_renames(path):
            self._put(path, text, overwrite=True)
            return
        parent, _, name = path.rpartition("/")
        hidden = f"{parent}/.{name}.{secrets.token_hex(4)}.tmp"
        self._put(hidden, text, overwrite=True)
        with _errors(path):
            self._rename(hidden, path, overwrite=True)

    def create(self, path: str, text: str) -> bool:
        """Create a file without overwriting one, which is a single step on HDFS and on a local disk."""
        try:
            self._put(path, text, overwrite=False)
        except AlreadyExists:
            return False
        return True

    def make(self, directory: str) -> None:
        """Create the directory as the user who writes the files; object stores have no directories."""
        if self._renames:
            with _errors(directory):
                path, files = self._open(directory)
                files.mkdirs(path)

    def move(self, source: str, target: str) -> None:
        """Rename; on an object store (the server copies) only if the copy does not exist yet."""
        with _errors(source):
            (old, files), (new, _) = self._open(source), self._open(target)
            if not files.exists(old):
                if not files.exists(new):
                    raise FileLost(
                        "a staged file is neither in the staging directory nor published",
                        source=source,
                        target=target,
                    )
                return
            if not self._renames and files.exists(new):
                files.delete(old, False)
                return
            files.mkdirs(new.getParent())
            if self._renames:
                self._rename(source, target, overwrite=False)
            elif not files.rename(old, new):
                raise FilesUnavailable("the object store did not move a file", path=source, target=target)

    def copy_with_tail(self, source: str, target: str, kept_bytes: int, tail: bytes) -> None:
        """Copy within the JVM; only ``tail`` passes through Python."""
        with _errors(source):
            (old, files), (new, _) = self._open(source), self._open(target)
            content = files.open(old)
            try:
                written = files.create(new, True)  # noqa: FBT003 - Java's: overwrite
                try:
                    self._jvm.org.apache.commons.io.IOUtils.copyLarge(content, written, 0, kept_bytes)
                    written.write(bytearray(tail))
                finally:
                    written.close()
            finally:
                content.close()

    def remove(self, path: str) -> None:
        """Delete recursively."""
        with _errors(path):
            resolved, files = self._open(path)
            files.delete(resolved, True)

    def _open(self, path: str) -> tuple[Any, Any]:
        resolved = self._jvm.org.apache.hadoop.fs.Path(path)
        return resolved, resolved.getFileSystem(self._conf)

    def _put(self, path: str, text: str, *, overwrite: bool) -> None:
        with _errors(path):
            resolved, files = self._open(path)
            stream = files.create(resolved, overwrite)
            try:
                stream.write(bytearray(text.encode()))
                stream.hflush()
            finally:
                stream.close()

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Rename through FileContext, which raises an error; FileSystem would only return false."""
        hadoop = self._jvm.org.apache.hadoop.fs
        option = getattr(hadoop, "Options$Rename")
        how = self._gateway.new_array(option, 1)
        how[0] = option.OVERWRITE if overwrite else option.NONE
        old, new = hadoop.Path(source), hadoop.Path(target)
        context = hadoop.FileContext.getFileContext(old.getFileSystem(self._conf).getUri(), self._conf)
        context.rename(old, new, how)


@contextmanager
def _errors(path: str, *, report_missing: bool = False) -> Iterator[None]:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        if kind.endswith("FileAlreadyExistsException"):
            raise AlreadyExists("the file already exists", path=path) from error
        if report_missing and kind.endswith("FileNotFoundException"):
            raise NotFound("the file does not exist", path=path) from error
        raise FilesUnavailable(
            "the file system failed", path=path, reason=str(error.java_exception)[:500]
        ) from error
    except Py4JError as error:
        raise FilesUnavailable("Spark's JVM does not answer", path=path, reason=str(error)[:500]) from error


class StorageByLocation:
    """A ``Storage`` that uses ``local`` for paths on the driver's disk, and ``remote`` for all others and for
    copies of data files.

    ``renames`` says whether a table's files are published by a rename; if not, ``remote`` moves them even on
    the local disk. ``local_paths`` says whether a path without a scheme is on the driver's disk, which
    depends on Hadoop's default file system.
    """

    def __init__(
        self, local: LocalDisk, remote: Storage, *, renames: bool = True, local_paths: bool = True
    ) -> None:
        self._local = local
        self._remote = remote
        self._renames = renames
        self._local_paths = local_paths

    def list(self, directory: str) -> Sequence[StorageEntry]:
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
        """Copy a file with another end. Hadoop verifies the checksum of a local file, and writes one for the
        copy.
        """
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
    # SLF001: PySpark has no other way to its JVM
    default = str(context._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))  # noqa: SLF001
    return StorageByLocation(
        LocalDisk(),
        HadoopStorage(spark, renames=renames),
        renames=renames,
        local_paths=default.startswith("file:"),
    )
