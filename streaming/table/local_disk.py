"""Storage on a disk of the driver's machine, without Hadoop.

Hadoop changes modes and reads links of local files by starting programs (``chmod``, ``readlink``), a few for every file. A small batch on a
local disk spent half of its time on about 90 of them (docs/SPLITTING.md, "Small batches"). Python's own calls need none.

Hadoop keeps a checksum of every local file in a hidden file beside it and refuses files that differ from it. So a moved file takes its
checksum along, in front of it, and the checksum of a replaced or removed file is removed. A file without one is read unchecked.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from state.errors import AlreadyExists, FileLost, FilesUnavailable
from streaming.table.storage import Entry


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_LOCAL: Final = re.compile(r"(?:file:)?(/[^/].*|/)", re.DOTALL)
"""Absolute paths and ``file:`` URIs without a host."""
_CHECKSUM: Final = ".crc"


def local_path(path: str) -> Path | None:
    """Return the path on the disk; None for a URI of another file system. Hadoop's paths are not percent-encoded."""
    found = _LOCAL.fullmatch(path.replace("file:///", "file:/", 1))
    return None if found is None else Path(found[1])


class LocalDisk:
    """The ``Storage`` of absolute paths and ``file:`` URIs."""

    def list(self, directory: str) -> Sequence[Entry]:
        """Return the children, without checksum files."""
        with _errors(directory):
            try:
                with os.scandir(_path(directory)) as children:
                    return sorted(
                        Entry(child.name, child.is_dir(), child.stat().st_size)
                        for child in children
                        if not child.name.endswith(_CHECKSUM)
                    )
            except FileNotFoundError:
                return ()

    def read(self, path: str) -> str | None:
        """Return a small text."""
        with _errors(path):
            try:
                return _path(path).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None

    def write(self, path: str, text: str) -> None:
        """Write to a temporary name and rename."""
        target = _path(path)
        hidden = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        with _errors(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            hidden.write_text(text, encoding="utf-8")
            _checksum(target).unlink(missing_ok=True)
            hidden.replace(target)

    def create(self, path: str, text: str) -> bool:
        """Create without overwriting."""
        target = _path(path)
        with _errors(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                return False
            return True

    def make(self, directory: str) -> None:
        """Create the directory."""
        with _errors(directory):
            _path(directory).mkdir(parents=True, exist_ok=True)

    def move(self, source: str, target: str) -> None:
        """Rename. A crash never leaves both files; if both exist, another writer is at work, and AlreadyExists is raised."""
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
                raise AlreadyExists("the file already exists", path=target)
            new.parent.mkdir(parents=True, exist_ok=True)
            if _checksum(old).exists():
                _checksum(old).replace(_checksum(new))
            old.replace(new)

    def copy_with_tail(self, source: str, target: str, kept_bytes: int, tail: bytes) -> None:
        """Copy the beginning and append ``tail``."""
        with _errors(source), _path(source).open("rb") as old:
            _checksum(_path(target)).unlink(missing_ok=True)
            with _path(target).open("wb") as new:
                left = kept_bytes
                while left and (chunk := old.read(min(left, 1 << 20))):
                    new.write(chunk)
                    left -= len(chunk)
                new.write(tail)

    def remove(self, path: str) -> None:
        """Delete recursively."""
        found = _path(path)
        with _errors(path):
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found)
                return
            found.unlink(missing_ok=True)
            _checksum(found).unlink(missing_ok=True)


def _path(path: str) -> Path:
    found = local_path(path)
    assert found is not None, path
    return found


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}{_CHECKSUM}")


@contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesUnavailable(
            "the file system failed", path=path, reason=f"{type(error).__name__}: {error.strerror}"
        ) from error
