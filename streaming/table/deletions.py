"""Directories to be deleted later: of hours that were switched to another directory, or dropped.

A query that started before a switch still reads the old directory, so it stays for a while. What is to be deleted is noted in the
table's own directory, ``.tideline/deletions/``, one small file per directory: noting twice is noting once, two writers cannot
lose each other's notes, and whoever comes next finds them.

The note is a wish, not an order. At deletion the metastore is asked for all partitions; a directory that one of them lies in,
above or below, stays, as does anything that is no version of an hour of this table.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from handlers.files.paths import Location, parse
from state.errors import UnsafePath
from streaming.table.hours import version_of


if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.table.port import FlatTable
    from streaming.table.storage import Storage


DIRECTORIES_MAX: Final = 200
"""Directories deleted in one pass."""
_FILE: Final = re.compile(r"[0-9a-f]{32}\.json")


@dataclass(frozen=True, slots=True)
class Note:
    """One directory to be deleted."""

    location: Location
    due_s: float
    """Seconds since 1970: not before."""
    reason: str


@dataclass(slots=True)
class Swept:
    """What a pass did."""

    deleted: list[Location] = field(default_factory=list)
    kept: list[Location] = field(default_factory=list)
    """Due, but a partition points there; or no directory of an hour."""
    waiting: int = 0


class Deletions:
    """The notes of the table whose directory is ``root``."""

    def __init__(self, root: Location, storage: Storage) -> None:
        self._root = root
        self._place = root.join(".tideline/deletions")
        self._storage = storage

    def note(self, location: Location, due_s: float, reason: str) -> None:
        """Note a directory; the first note of a directory counts. UnsafePath where it is not below the table."""
        if location == self._root or not self._root.contains(location):
            raise UnsafePath(
                "only directories of the table are deleted", path=str(location), table=str(self._root)
            )
        content = json.dumps({"location": str(location), "due": due_s, "reason": reason})
        self._storage.create(str(self._file(location)), content)

    def notes(self) -> Sequence[Note]:
        """Return all notes, those due first."""
        entries = self._storage.list(str(self._place))
        names = [entry.name for entry in entries if _FILE.fullmatch(entry.name)]
        found = [note for name in names if (note := self._read(self._place.child(name))) is not None]
        return sorted(found, key=lambda note: (note.due_s, note.location))

    def sweep(self, table: FlatTable, now_s: float) -> Swept:
        """Delete what is due and unused; the rest stays noted. Safe to repeat, and to be killed in."""
        notes = self.notes()
        due = [note for note in notes if note.due_s <= now_s][:DIRECTORIES_MAX]
        done = Swept(waiting=len(notes) - len(due))
        used = [partition.location for partition in table.partitions()] if due else []
        for note in due:
            if self._may_go(note.location, used):
                self._delete(note)
                done.deleted.append(note.location)
            else:
                done.kept.append(note.location)
        return done

    def _may_go(self, place: Location, used: Sequence[Location]) -> bool:
        if version_of(place) is None or not self._root.contains(place.parent) or place.parent == self._root:
            return False
        return not any(place.contains(other) or other.contains(place) for other in used)

    def _delete(self, note: Note) -> None:
        self._storage.remove(str(note.location))
        failpoint("flat.deleted")
        hour = note.location.parent
        if not self._storage.list(str(hour)):
            self._storage.remove(str(hour))
        self._storage.remove(str(self._file(note.location)))

    def _file(self, location: Location) -> Location:
        return self._place.child(hashlib.sha256(str(location).encode()).hexdigest()[:32] + ".json")

    def _read(self, place: Location) -> Note | None:
        """Read a note; None for one that is no note, which then stays where it is."""
        try:
            found = json.loads(self._storage.read(str(place)) or "")
            return Note(parse(found["location"]), float(found["due"]), str(found["reason"]))
        except (ValueError, KeyError, TypeError, UnsafePath):
            return None
