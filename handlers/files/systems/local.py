"""The local file system, which also serves NFS and FUSE mounts.

Publishing takes four steps: write a hidden file in the same directory, fsync it, rename it, fsync the
directory. The last step serves all files renamed before it (``settle``), so that many small files wait for
the disk once and not twice. With ``fsync`` off, a power failure (but not a crash of Tideline) may lose files
that the target's metastore already considers committed.

It follows no symbolic link below a trusted root (``unlinked_paths``): a link planted in a warehouse would
otherwise make Tideline copy any file that the daemon may read, or remove any that it may write. Every call
opens the directory without links first and then uses the name in it, so that a directory exchanged for a link
meanwhile changes nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat as modes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

from handlers.files.filesystems import (
    Chunk,
    Entry,
    FileState,
    FileSystem,
    ReadStream,
    WriteStream,
    make_temporary_name,
)
from handlers.files.paths import Location, parse_location, printable
from handlers.files.systems.unlinked_paths import DIRECTORY, TrustedRoots
from state.errors import ConfigError, FilesUnavailable, NotFound, Refused, TidelineError, UnsafePath


_NO_KERNEL_COPY: Final = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}


def open_local(authority: str, options: Mapping[str, object]) -> FileSystem:
    """Open the local file system.

    Its options are ``fsync`` (default true), and ``trusted_roots``: directories, separated by commas, whose
    own paths may contain symbolic links.
    """
    assert not authority, authority
    fsync, roots = options.get("fsync", True), options.get("trusted_roots", "")
    if set(options) - {"fsync", "trusted_roots"} or not isinstance(fsync, bool) or not isinstance(roots, str):
        raise ConfigError(
            "the options of the local file system are fsync, which must be true or false, and "
            "trusted_roots, which must be a comma-separated list of directories",
            options=sorted(options),
        )
    files = LocalFiles(fsync=fsync)
    for root in filter(None, map(str.strip, roots.split(","))):
        files.trust(parse_location(root))
    return files


class LocalFiles:
    """Files through system calls. Paths are plain strings,
    because ``pathlib`` takes longer than the calls for a small file.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        self._fsync = fsync
        self._roots = TrustedRoots()

    def trust(self, root: Location) -> None:
        """Allow symbolic links in the path of ``root`` itself."""
        self._roots.add(root.path)

    def stat(self, location: Location) -> FileState:
        """Return size, time and inode of a regular file."""
        with _OsErrors(location):
            fd = self._roots.open(location.path, os.O_PATH | os.O_CLOEXEC)
            try:
                return _to_state(os.fstat(fd), location)
            finally:
                os.close(fd)

    def list(self, location: Location) -> Sequence[Entry]:
        """Return the children without symbolic links and without those that vanish meanwhile."""
        with _OsErrors(location):
            fd = self._roots.open(location.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with os.scandir(fd) as children:
                    return sorted(entry for child in children if (entry := _to_entry(child)) is not None)
            finally:
                os.close(fd)

    def open(self, location: Location) -> LocalReader:
        """Open a regular file; raise UnsafePath if its path contains a symbolic link."""
        with _OsErrors(location):
            fd = self._roots.open(location.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            reader = LocalReader(fd, location)
            try:
                _to_state(os.fstat(fd), location)
            except BaseException:
                os.close(fd)
                raise
        return reader

    def is_encrypted(self, location: Location) -> bool:  # noqa: ARG002, PLR6301 - required by the port
        """Return False: readers get the stored bytes."""
        return False

    # ARG002: required by the port; nothing to reserve here
    def create(self, location: Location, size_bytes: int) -> LocalWriter:  # noqa: ARG002
        """Start a hidden file next to ``location``."""
        with _OsErrors(location):
            hidden = make_temporary_name()
            directory = self._open_or_make(location.parent.path)
            try:
                fd = os.open(
                    hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=directory
                )
            except BaseException:
                os.close(directory)
                raise
        return LocalWriter(fd, directory, hidden, location, fsync=self._fsync)

    def make_directory(self, location: Location) -> None:
        """Create a directory, durably."""
        with _OsErrors(location):
            os.close(self._open_or_make(location.path))

    def remove(self, location: Location) -> None:
        """Unlink a file."""
        with _OsErrors(location), self._directory_of(location) as directory:
            if directory is not None:
                _forget_checksum(directory, location.name)
                _unlink(directory, location.name)

    def remove_tree(self, location: Location) -> None:
        """Remove a directory; remove links in it without following them."""
        with _OsErrors(location), self._directory_of(location) as directory:
            if directory is not None:
                with suppress(FileNotFoundError):
                    shutil.rmtree(location.name, dir_fd=directory)

    def settle(self, directory: Location) -> None:
        """Fsync the directory."""
        if self._fsync:
            with _OsErrors(directory):
                fd = self._roots.open(directory.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def transfer(self, source: ReadStream, target: WriteStream, size_bytes: int) -> int:
        """Copy with ``copy_file_range``:
        no byte passes through this process, and file systems with reflinks share blocks.
        """
        if not isinstance(source, LocalReader) or not isinstance(target, LocalWriter):
            return 0
        try:
            return os.copy_file_range(source.fd, target.fd, size_bytes)
        except OSError as error:
            if error.errno in _NO_KERNEL_COPY:
                return 0
            raise _to_tideline_error(error, target.location) from error

    @contextmanager
    def _directory_of(self, location: Location) -> Iterator[int | None]:
        """Open the directory of ``location``; None if there is none."""
        try:
            fd = self._roots.open(location.parent.path, DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def _open_or_make(self, path: str) -> int:
        """Open the directory ``path``; create it and its parents, and fsync the parent of each new one."""
        try:
            return self._roots.open(path, DIRECTORY)
        except FileNotFoundError:  # most files go to a directory that exists
            above, _, name = path.rpartition("/")
        parent = self._open_or_make(above or "/")
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
            if self._fsync:
                _sync_directory(parent)
            return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        finally:
            os.close(parent)


class LocalReader:
    """A file descriptor open for reading."""

    def __init__(self, fd: int, location: Location) -> None:
        self.fd = fd
        self._location = location

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill ``buffer``."""
        with _OsErrors(self._location):
            return os.readv(self.fd, [buffer])

    def read_chunk(self, buffer: memoryview, /) -> Chunk:
        """Fill ``buffer`` and return the filled part."""
        return buffer[: self.readinto(buffer)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class LocalWriter:
    """A hidden file until published."""

    def __init__(self, fd: int, directory: int, hidden: str, final: Location, *, fsync: bool) -> None:
        self.fd = fd
        self.location = final
        self._directory = directory
        self._hidden = hidden
        self._fsync = fsync
        self._published = False

    def write(self, data: Chunk, /) -> None:
        """Append ``data``."""
        with _OsErrors(self.location):
            while data:
                data = data[os.write(self.fd, data) :]

    def publish(self) -> None:
        """Fsync and rename; remove Hadoop's checksums of a replaced file first."""
        assert not self._published, self.location
        with _OsErrors(self.location):
            if self._fsync:
                os.fsync(self.fd)
            _forget_checksum(self._directory, self.location.name)
            os.rename(
                self._hidden, self.location.name, src_dir_fd=self._directory, dst_dir_fd=self._directory
            )
            self._published = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _OsErrors(self.location):
            try:
                os.close(self.fd)
            finally:
                try:
                    if not self._published:
                        _unlink(self._directory, self._hidden)
                finally:
                    os.close(self._directory)


def _to_entry(child: os.DirEntry[str]) -> Entry | None:
    """Return the entry of a file or directory; None for a link or if it vanished after the reading of the
    directory.
    """
    if child.is_symlink():
        return None
    try:
        stat = child.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return Entry(child.name, modes.S_ISDIR(stat.st_mode), stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _forget_checksum(directory: int, name: str) -> None:
    """Remove ``.NAME.crc``, which Hadoop writes next to a local file; because of that file, Hadoop would
    refuse to read other content under the name.
    """
    checksum = f".{name}.crc"
    with suppress(FileNotFoundError):
        # Removing locks the directory for all threads, looking does not.
        os.stat(checksum, dir_fd=directory, follow_symlinks=False)
        os.unlink(checksum, dir_fd=directory)


def _unlink(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _sync_directory(directory: int) -> None:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _to_state(stat: os.stat_result, location: Location) -> FileState:
    if modes.S_ISLNK(stat.st_mode):
        raise UnsafePath("the path is a symbolic link", path=printable(str(location)))
    if not modes.S_ISREG(stat.st_mode):
        raise Refused("the path is not a regular file", path=printable(str(location)))
    return FileState(stat.st_size, stat.st_mtime_ns, stat.st_ino)


class _OsErrors:
    """Raises failures of system calls in its block as errors of Tideline.
    A class, because a generator costs as much as a call.
    """

    __slots__ = ("_location",)

    def __init__(self, location: Location) -> None:
        self._location = location

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise _to_tideline_error(error, self._location) from error


_CHECK_ACCESS: Final = "Give the daemon's user access (owner and mode); Tideline tries again."
_TRUST_LINK: Final = (
    "Use the directory that the link points to, or add a legitimate link to trusted_roots "
    "(files.options, scheme 'file')."
)
_KINDS: Final[Mapping[int, tuple[type[TidelineError], str, str]]] = {
    errno.ENOENT: (NotFound, "no such file or directory", ""),
    errno.ENOTDIR: (NotFound, "no such file or directory", ""),
    # Failures of the environment that an operator can end: Tideline tries again, and quarantines no table.
    errno.EACCES: (FilesUnavailable, "the file system denied access", _CHECK_ACCESS),
    errno.EPERM: (FilesUnavailable, "the file system denied access", _CHECK_ACCESS),
    errno.EROFS: (FilesUnavailable, "the file system is read-only", "Mount it for writing."),
    errno.EISDIR: (Refused, "the name is already taken", ""),
    errno.EEXIST: (Refused, "the name is already taken", ""),
    errno.ELOOP: (UnsafePath, "the path contains a symbolic link", _TRUST_LINK),
    errno.ENAMETOOLONG: (UnsafePath, "the path is too long for the file system", ""),
    errno.ENOSPC: (FilesUnavailable, "no space is left", "Free space on the target."),
    errno.EDQUOT: (FilesUnavailable, "the quota is exhausted", "Raise the quota."),
    errno.EFBIG: (
        FilesUnavailable,
        "the file is larger than this process may write",
        "Raise the file size limit.",
    ),
}


def _to_tideline_error(error: OSError, location: Location) -> TidelineError:
    """Return the error of Tideline's tree for a failed system call; an unlisted one counts as transient."""
    kind, message, hint = _KINDS.get(error.errno or 0, (FilesUnavailable, "the file system failed", ""))
    return kind(message, path=printable(str(location)), reason=error.strerror or str(error), hint=hint)
