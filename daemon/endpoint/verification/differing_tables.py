"""Tables whose answers differed from the metastore's: the endpoint forwards their calls until the index has
loaded them again.

A difference has one of three causes: a defect of the index, a defect in making the answer, or a change that
no event reported. Loading the table again repairs the first and the last, and gives the table another number
in the index. So the number shows that the operator has acted, without a separate command. If the answers
still differ, the next comparison finds that.

The tables are in a file, so that they survive a restart.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.state_directory.record_file import RecordFile


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """A table whose answers differ. The field names are those in the file."""

    table: str
    number: int
    """The table's number in the index."""
    call: str
    event_id: int
    """The event that the answers reflect."""
    found_s: int
    """Unix time."""


class DifferingTables:
    """The tables of one endpoint; thread-safe."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the tables that an earlier process recorded. Without a path, the tables are in memory only."""
        self._file = RecordFile(path, AnswerDifference, "the list of differing tables")
        self._lock = threading.Lock()
        self._differences = {each.table: each for each in self._file.read()}

    def contains(self, table: str, number: int) -> bool:
        """Whether the answers of a table with this number differ."""
        difference = self._differences.get(table)
        return difference is not None and difference.number == number

    def add(self, difference: AnswerDifference) -> None:
        """Record a difference, unless the table already has one."""
        with self._lock:
            before = self._differences.get(difference.table)
            if before is not None and before.number == difference.number:
                return
            self._differences = {**self._differences, difference.table: difference}
            self._file.write(self.all())

    def forget(self, table: str) -> None:
        """Forget a table after its load, or if it no longer exists."""
        with self._lock:
            self._differences = {name: each for name, each in self._differences.items() if name != table}
            self._file.write(self.all())

    def all(self) -> Sequence[AnswerDifference]:
        """Return all differences, by table."""
        return [self._differences[name] for name in sorted(self._differences)]
