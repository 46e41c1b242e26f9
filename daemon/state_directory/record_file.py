"""A small list of records in a file of the state directory, for facts that should survive a restart but may
be lost.

If the file is damaged, the list starts empty; if the disk is full, the file stays as it is. The log reports
both. Facts that must not be lost are in a store (``directory``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog
from pydantic import TypeAdapter

from daemon.state_directory.directory import write_atomically


log = structlog.get_logger(__name__)
T = TypeVar("T")


class RecordFile(Generic[T]):
    """A JSON array of dataclasses of one class; the file contains the names of their fields."""

    def __init__(self, path: Path | None, kind: type[T], subject: str) -> None:
        """``subject`` names the list in the log. Without a ``path``, the list is in memory only."""
        self._path = path
        self._records: TypeAdapter[list[T]] = TypeAdapter(list[kind])  # type: ignore[valid-type]
        self._subject = subject

    def read(self) -> list[T]:
        """Return the records; none if the file is missing or unreadable."""
        if self._path is None:
            return []
        try:
            return self._records.validate_python(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self._warn("a list starts again, because its file cannot be read", type(error).__name__)
            return []

    def write(self, records: Sequence[T]) -> None:
        """Replace the file."""
        if self._path is None:
            return
        try:
            write_atomically(self._path, self._records.dump_python(list(records), mode="json"))
        except OSError as error:
            self._warn("a list cannot be stored", str(error))

    def _warn(self, event: str, problem: str) -> None:
        log.warning(event, list=self._subject, path=str(self._path), problem=problem)
