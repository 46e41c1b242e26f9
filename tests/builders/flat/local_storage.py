"""A simple storage on the local file system without a JVM."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from state.errors import FileLost
from streaming.storage.port import StorageEntry


class LocalStorage:
    """Implements ``streaming.storage.port.Storage``; paths are absolute or ``file:`` URIs."""

    def list(self, directory: str) -> Sequence[StorageEntry]:
        place = _path(directory)
        if not place.is_dir():
            return ()
        return sorted(
            StorageEntry(child.name, child.is_dir(), child.stat().st_size)
            for child in place.iterdir()
            if not child.name.endswith(".crc")
        )

    def read(self, path: str) -> str | None:
        place = _path(path)
        return place.read_text() if place.is_file() else None

    def write(self, path: str, text: str) -> None:
        place = _path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def create(self, path: str, text: str) -> bool:
        if _path(path).exists():
            return False
        self.write(path, text)
        return True

    def make(self, directory: str) -> None:
        _path(directory).mkdir(parents=True, exist_ok=True)

    def move(self, source: str, target: str) -> None:
        old, new = _path(source), _path(target)
        if not old.exists():
            if not new.exists():
                raise FileLost("neither is there", source=source, target=target)
            return
        new.parent.mkdir(parents=True, exist_ok=True)
        old.rename(new)

    def copy_with_tail(self, source: str, target: str, kept_bytes: int, tail: bytes) -> None:
        _path(target).write_bytes(_path(source).read_bytes()[:kept_bytes] + tail)

    def remove(self, path: str) -> None:
        place = _path(path)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)


def _path(text: str) -> Path:
    return Path("/" + text.removeprefix("file:").lstrip("/"))
