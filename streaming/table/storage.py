"""Files as the stream needs them: listed, moved, and small records written whole or not at all.

Tables and checkpoints lie wherever Spark can write, so the implementation is Hadoop's, in Spark's own JVM, with Spark's own
settings: what Spark wrote can always be moved. (``handlers.files`` copies between clusters without any JVM; it has no moves.)

A move is idempotent, because after a crash it is repeated: the source gone and the target there means that it was done. On a
file system with renames it is one rename. On an object store a rename is a copy on the server and a removal, and a crash between
them leaves both; the copy is whole then (an object appears when it is complete), so the source alone is removed.

Whether a small record is written beside and renamed over, or at once, goes by its own place: a checkpoint may lie on HDFS while its
table lies in an object store.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from state.errors import AlreadyExists, FileLost, FilesUnavailable, NotFound
from streaming.settings import has_renames


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One child of a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class Storage(Protocol):
    """Paths are texts: absolute, or URIs. Errors: FilesUnavailable for what may pass, FileLost where a file has vanished."""

    def list(self, directory: str) -> Sequence[Entry]:
        """Return the children sorted by name, checksum files left out; none where there is no such directory."""

    def read(self, path: str) -> str | None:
        """Return a small text; None where there is no such file."""

    def write(self, path: str, text: str) -> None:
        """Write a small text under ``path``, which appears whole or keeps what it had."""

    def create(self, path: str, text: str) -> bool:
        """Write a small text under a name that nobody has; False where somebody has it."""

    def make(self, directory: str) -> None:
        """Make a directory and those above it, where directories are things; no error where it is there."""

    def move(self, source: str, target: str) -> None:
        """Give the file ``source`` the name ``target``; no error where that was done before. FileLost where neither is."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything in it; absent is no error."""


class HadoopStorage:
    """Storage through ``org.apache.hadoop.fs`` in the JVM of a Spark session; ``renames`` tells whether moves are one step."""

    def __init__(self, spark: Any, *, renames: bool = True) -> None:
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
        self._gateway = spark.sparkContext._gateway  # noqa: SLF001 - likewise
        self._conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - likewise
        self._renames = renames

    def list(self, directory: str) -> Sequence[Entry]:
        """Return the children, in one question: each costs an object store's time."""
        try:
            with _errors(directory, told_absent=True):
                path, files = self._at(directory)
                return sorted(
                    Entry(each.getPath().getName(), bool(each.isDirectory()), int(each.getLen()))
                    for each in files.listStatus(path)
                    if not each.getPath().getName().endswith(".crc")
                )
        except NotFound:
            return ()

    def read(self, path: str) -> str | None:
        """Return a small text."""
        try:
            with _errors(path, told_absent=True):
                place, files = self._at(path)
                stream = files.open(place)
                try:
                    return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
        except NotFound:
            return None

    def write(self, path: str, text: str) -> None:
        """Write beside and rename over; on an object store write at once, which is as whole."""
        if not has_renames(path):
            self._put(path, text, overwrite=True)
            return
        parent, _, name = path.rpartition("/")
        hidden = f"{parent}/.{name}.{secrets.token_hex(4)}.tmp"
        self._put(hidden, text, overwrite=True)
        with _errors(path):
            self._rename(hidden, path, overwrite=True)

    def create(self, path: str, text: str) -> bool:
        """Create without overwriting: one step on HDFS and on a local disk."""
        try:
            self._put(path, text, overwrite=False)
        except AlreadyExists:
            return False
        return True

    def make(self, directory: str) -> None:
        """Make it as who writes the files; an object store has no directories that belong to somebody."""
        if self._renames:
            with _errors(directory):
                path, files = self._at(directory)
                files.mkdirs(path)

    def move(self, source: str, target: str) -> None:
        """Rename; on an object store, whose server copies, only where the copy is not there yet."""
        with _errors(source):
            (old, files), (new, _) = self._at(source), self._at(target)
            if not files.exists(old):
                if not files.exists(new):
                    raise FileLost(
                        "a staged file is neither in its place nor published", source=source, target=target
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

    def remove(self, path: str) -> None:
        """Delete recursively."""
        with _errors(path):
            place, files = self._at(path)
            files.delete(place, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place, place.getFileSystem(self._conf)

    def _put(self, path: str, text: str, *, overwrite: bool) -> None:
        with _errors(path):
            place, files = self._at(path)
            stream = files.create(place, overwrite)
            try:
                stream.write(bytearray(text.encode()))
                stream.hflush()
            finally:
                stream.close()

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Rename by FileContext, whose answer is an error; FileSystem's is a false that says nothing."""
        hadoop = self._jvm.org.apache.hadoop.fs
        option = getattr(hadoop, "Options$Rename")
        how = self._gateway.new_array(option, 1)
        how[0] = option.OVERWRITE if overwrite else option.NONE
        old, new = hadoop.Path(source), hadoop.Path(target)
        context = hadoop.FileContext.getFileContext(old.getFileSystem(self._conf).getUri(), self._conf)
        context.rename(old, new, how)


@contextmanager
def _errors(path: str, *, told_absent: bool = False) -> Iterator[None]:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        if kind.endswith("FileAlreadyExistsException"):
            raise AlreadyExists("the file is there already", path=path) from error
        if told_absent and kind.endswith("FileNotFoundException"):
            raise NotFound("there is no such file", path=path) from error
        raise FilesUnavailable(
            "the file system failed", path=path, reason=str(error.java_exception)[:500]
        ) from error
    except Py4JError as error:
        raise FilesUnavailable("Spark's JVM did not answer", path=path, reason=str(error)[:500]) from error
