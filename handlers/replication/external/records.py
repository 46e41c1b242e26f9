"""Records of the copied files, in their own store, and of the last complete cycle.

They have their own store because the thread of a cycle writes them while replay writes its position. If they
are lost, the next cycle compares all bytes, but no file is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from state.errors import StateCorrupt
from state.external.differences import CopiedFile
from state.store import Store, prefix_end


_FILES: Final = b"file/"
_COMPLETE: Final = b"complete"


class CopyRecords:
    """The records of one policy; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def recover(self) -> None:
        """Open the file again if it has failed; raise FilesUnavailable while the cause lasts."""
        self._store.recover()

    def read(self, directory: str) -> dict[str, CopiedFile]:
        """Return the records of the files directly in a directory of the source, by name;
        raise StateCorrupt.
        """
        prefix = _prefix(directory)
        return {
            key[len(prefix) :].decode(): CopiedFile.from_bytes(value)
            for key, value in self._store.scan(prefix, prefix_end(prefix))
        }

    def write(self, directory: str, added: Mapping[str, CopiedFile], removed: Iterable[str]) -> None:
        """Change the records of a directory in one transaction; do nothing if there is nothing to change."""
        removed = tuple(removed)
        if not added and not removed:
            return
        prefix = _prefix(directory)
        with self._store.transaction() as txn:
            for name, record in added.items():
                txn.put(prefix + name.encode(), record.to_bytes())
            for name in removed:
                txn.delete(prefix + name.encode())

    def last_complete_s(self) -> int | None:
        """Return when the last complete cycle began, as Unix time; None if there was none."""
        value = self._store.get(_COMPLETE)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError as error:
            raise StateCorrupt(
                "the time of the last complete copy cannot be read", value=value[:100]
            ) from error

    def complete(self, began_s: int) -> None:
        """Record that a cycle that began at this time is complete."""
        with self._store.transaction() as txn:
            txn.put(_COMPLETE, str(began_s).encode())

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def _prefix(directory: str) -> bytes:
    return _FILES + directory.encode() + b"\0"
