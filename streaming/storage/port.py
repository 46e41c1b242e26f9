"""The port for file operations of the stream: lists and moves files, and writes small records atomically.

Moves are idempotent, because a crash may repeat them: if the source is gone and the target exists, the move
was done before.

No operation waits for the disk. Written data survives the death of every process, as do the files that Spark
writes next to it; a power failure of the machine may lose the newest records and files of a local disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, order=True)
class StorageEntry:
    """A child of a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class Storage(Protocol):
    """File operations on absolute paths or URIs. Raises FilesUnavailable for temporary failures, FileLost if
    a file has vanished.
    """

    def list(self, directory: str) -> Sequence[StorageEntry]:
        """Return the children sorted by name, without checksum files;
        none if the directory does not exist.
        """

    def read(self, path: str) -> str | None:
        """Return a small text; None if the file does not exist."""

    def write(self, path: str, text: str) -> None:
        """Write a small text to ``path`` atomically."""

    def create(self, path: str, text: str) -> bool:
        """Write a small text to a new file; return False if the file exists."""

    def make(self, directory: str) -> None:
        """Create a directory and its parents, on file systems that have directories."""

    def move(self, source: str, target: str) -> None:
        """Move the file ``source`` to ``target``; do nothing if that was done before. Raises FileLost if
        neither exists.
        """

    def copy_with_tail(self, source: str, target: str, kept_bytes: int, tail: bytes) -> None:
        """Write the first ``kept_bytes`` of ``source`` and then ``tail`` to ``target``. Overwrites an
        existing target.
        """

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its contents, if it exists."""
