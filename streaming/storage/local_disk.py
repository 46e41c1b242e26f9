"""Storage on a disk of the driver's machine, without Hadoop.

Hadoop changes modes and reads links of local files by starting programs (``chmod``, ``readlink``), a few for
every file. A small batch on a local disk spent half of its time on about 90 of them (docs/SPLITTING.md,
"Small batches"). Python's own calls need none.

Hadoop keeps a checksum of every local file in a hidden file next to it and refuses files that differ from it.
It reads a file without a checksum unchecked, but cannot read a file with the checksum of an earlier one. So
at every step, even after a crash, a file has either its own checksum or none: the checksum of a moved file
moves before the file, and the checksum of a replaced or removed file is removed first.
"""

from __future__ import annotations

import errno
import filecmp
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from state.errors import AlreadyExists, FileLost, FilesUnavailable
from streaming.storage.port import StorageEntry


_LOCAL: Final = re.compile(r"(?:file:)?(/[^/].*|/)", re.DOTALL)
"""Absolute paths and ``file:`` URIs without a host."""
_CHECKSUM: Final = ".crc"
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Answers of file systems without hard links."""


def local_path(path: str) -> Path | None:
    """Return the path on the disk; None for a URI of another file system. Hadoop's paths are not
    percent-encoded.
    """
    match = _LOCAL.fullmatch(path.replace("file:///", "file:/", 1))
    return None if match is None else Path(match[1])


class LocalDisk:
    """The ``Storage`` of absolute paths and ``file:`` URIs. It does not copy data files, because only Hadoop
    writes their checksums.
    """

    def list(self, directory: str) -> Sequence[StorageEntry]:
        """Return the children, without checksum files."""
        with _errors(directory):
            try:
                children = os.scandir(_path(directory))
            except FileNotFoundError:
                return ()
            with children:
                entries = [_entry(child) for child in children if not child.name.endswith(_CHECKSUM)]
            return sorted(entry for entry in entries if entry is not None)

    def read(self, path: str) -> str | None:
        """Return a small text."""
        with _errors(path):
            try:
                return _path(path).read_bytes().decode(errors="replace")
            except FileNotFoundError:
                return None

    def write(self, path: str, text: str) -> None:
        """Write to a temporary name and rename."""
        target = _path(path)
        with _errors(path), _written(target, text) as hidden:
            _checksum(target).unlink(missing_ok=True)
            hidden.replace(target)

    def create(self, path: str, text: str) -> bool:
        """Write to a temporary name and link it, so that the file appears with its content and never replaces
        another one.
        """
        target = _path(path)
        with _errors(path), _written(target, text) as hidden:
            if target.exists():
                return False
            _checksum(target).unlink(missing_ok=True)
            try:
                os.link(hidden, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                hidden.replace(target)
            return True

    def make(self, directory: str) -> None:
        """Create the directory."""
        with _errors(directory):
            _path(directory).mkdir(parents=True, exist_ok=True)

    def move(self, source: str, target: str) -> None:
        """Rename. Raises AlreadyExists if another file has the name: another writer must be active."""
        old, new = _path(source), _path(target)
        with _errors(source):
            if not old.exists():
                if not new.exists():
                    raise FileLost(
                        "a staged file is neither in the staging directory nor published",
                        source=source,
                        target=target,
                    )
                return
            if new.exists():
                if not filecmp.cmp(old, new, shallow=False):
                    raise AlreadyExists("the file already exists", path=target)
                _remove_file(old)  # an interruption of a move between mounts, before this step
                return
            new.parent.mkdir(parents=True, exist_ok=True)
            if _checksum(old).exists():
                _rename(_checksum(old), _checksum(new))
            _rename(old, new)

    def remove(self, path: str) -> None:
        """Delete recursively, ignoring files that vanish meanwhile."""
        local = _path(path)
        with _errors(path):
            if local.is_dir() and not local.is_symlink():
                shutil.rmtree(local, onerror=_raise_unless_missing)
            else:
                _remove_file(local)


def _path(path: str) -> Path:
    local = local_path(path)
    assert local is not None, path
    return local


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}{_CHECKSUM}")


def _entry(child: os.DirEntry[str]) -> StorageEntry | None:
    """Return the child; None if it has vanished since the directory was read, or is a broken link."""
    try:
        return StorageEntry(child.name, child.is_dir(), child.stat().st_size)
    except FileNotFoundError:
        return None


@contextmanager
def _written(target: Path, text: str) -> Iterator[Path]:
    """Provide a hidden file next to ``target`` with the text; remove it at the end if it still exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    hidden = _hidden(target)
    try:
        hidden.write_bytes(text.encode())
        yield hidden
    finally:
        hidden.unlink(missing_ok=True)


def _rename(old: Path, new: Path) -> None:
    """Rename. Between mounts, which renames cannot cross, copy to a hidden name first, so that the file
    appears with its content.
    """
    try:
        old.replace(new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        hidden = _hidden(new)
        shutil.copy(old, hidden)
        hidden.replace(new)
        old.unlink()


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")


def _remove_file(path: Path) -> None:
    _checksum(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _raise_unless_missing(_: object, __: str, failure: tuple[object, BaseException, object]) -> None:
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesUnavailable(
            "the file system failed", path=path, reason=f"{type(error).__name__}: {error.strerror}"
        ) from error
