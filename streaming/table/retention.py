"""Decides which old hours to drop, and deletes their directories later.

Dropping the wrong partition cannot be undone. So the decision is a cautious, pure function:

* The age of an hour is measured from the newest *sealed* hour, not from a clock, so a stopped stream drops
  nothing.
* A wrong event time or a wrong clock must not make the whole table look old. So nothing is dropped while the
  newest sealed hour and this machine's clock differ by more than ``distance_max_s``.
* One run drops at most ``hours_max`` hours, the oldest first, and never the newest hour.

A query that started before an hour was switched or dropped still reads the old directory. So retention does
not delete directories at once, but writes a note for each, a small file in ``.tideline/deletions/`` of the
table's directory. Writing a note twice has no effect, two writers cannot lose each other's notes, and any
later writer finds them.

A note alone is not enough to delete a directory. Retention first reads all partitions from the metastore, and
keeps a directory if the location of a partition is this directory, above it or below it, or if the directory
is not a version directory of an hour of this table.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from handlers.failpoints import failpoint
from handlers.files.paths import Location, parse_location
from state.errors import UnsafePath
from streaming.storage.port import Storage
from streaming.table.flat_table import FlatTable, HourPartition
from streaming.table.hours import HOUR_S, parse_version


HOURS_MAX: Final = 48
DISTANCE_MAX_S: Final = 2 * 86_400


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The rules for how long to keep hours."""

    keep_s: int
    """How long to keep hours, in event time before the newest sealed hour; 0 keeps everything."""
    hours_max: int = HOURS_MAX
    distance_max_s: int = DISTANCE_MAX_S


@dataclass(frozen=True, slots=True)
class Expiry:
    """The hours to drop. ``refused`` is the reason if the rules permit no drop now."""

    hours: tuple[int, ...] = ()
    left: int = 0
    """Further hours that are old enough, for the next runs."""
    refused: str = ""


def find_expired(
    hours: Iterable[int], sealed: Collection[int], now_s: float, rules: RetentionRules
) -> Expiry:
    """Return which of ``hours`` to drop. ``sealed`` are the hours whose files are complete, ``now_s`` is this
    machine's clock.
    """
    if rules.keep_s <= 0:
        return Expiry()
    if not sealed:
        return Expiry(refused="no hour is sealed yet")
    newest = max(sealed)
    distance_s = abs(now_s - (newest + HOUR_S))
    if distance_s > rules.distance_max_s:
        side = "behind" if newest < now_s else "ahead of"
        return Expiry(refused=f"the newest sealed hour is {round(distance_s)} s {side} this machine's clock")
    old = sorted(hour for hour in hours if hour + rules.keep_s < newest)
    return Expiry(tuple(old[: rules.hours_max]), max(0, len(old) - rules.hours_max))


def drop_hours(
    table: FlatTable, partitions: Iterable[HourPartition], deletions: Deletions, due_s: float
) -> list[int]:
    """Drop ``partitions`` and note their directories for deletion after ``due_s`` (seconds since 1970).

    Writes the notes first. After a crash in between, the deletion ignores notes of directories that
    partitions still use. No files are left without a partition or a note.
    """
    listed = list(partitions)
    for partition in listed:
        deletions.note(partition.location, due_s, "retention")
    table.drop_hours([partition.hour for partition in listed])
    return [partition.hour for partition in listed]


DIRECTORIES_MAX: Final = 200
"""Directories deleted in one pass at most."""
_FILE: Final = re.compile(r"[0-9a-f]{32}\.json")


@dataclass(frozen=True, slots=True)
class DeletionNote:
    """A note about a directory to delete."""

    location: Location
    due_s: float
    """Earliest time of deletion in seconds since 1970."""
    reason: str


@dataclass(slots=True)
class SweepResult:
    """The result of a pass."""

    deleted: list[Location] = field(default_factory=list)
    kept: list[Location] = field(default_factory=list)
    """Directories that were due but kept, because a partition points there or they are not directories of an
    hour.
    """
    waiting: int = 0


class Deletions:
    """The deletion notes of the table in directory ``root``."""

    def __init__(self, root: Location, storage: Storage) -> None:
        self._root = root
        self._directory = root.join(".tideline/deletions")
        self._storage = storage

    def note(self, location: Location, due_s: float, reason: str) -> None:
        """Write a note for a directory; further calls for the same directory change nothing. Raises
        UnsafePath if it is not below the table.
        """
        if location == self._root or not self._root.contains(location):
            raise UnsafePath(
                "only directories below the table's directory may be deleted",
                path=str(location),
                table=str(self._root),
            )
        content = json.dumps({"location": str(location), "due": due_s, "reason": reason})
        self._storage.create(str(self._file(location)), content)

    def notes(self) -> Sequence[DeletionNote]:
        """Return all notes in the order in which they are due."""
        entries = self._storage.list(str(self._directory))
        names = [entry.name for entry in entries if _FILE.fullmatch(entry.name)]
        notes = [note for name in names if (note := self._read(self._directory.child(name))) is not None]
        return sorted(notes, key=lambda note: (note.due_s, note.location))

    def sweep(self, table: FlatTable, now_s: float) -> SweepResult:
        """Delete the directories that are due and unused, and keep the notes of others. May be repeated and
        interrupted.
        """
        notes = self.notes()
        due = [note for note in notes if note.due_s <= now_s][:DIRECTORIES_MAX]
        result = SweepResult(waiting=len(notes) - len(due))
        used = [partition.location for partition in table.partitions()] if due else []
        for note in due:
            if self._is_unused(note.location, used):
                self._delete(note)
                result.deleted.append(note.location)
            else:
                result.kept.append(note.location)
        return result

    def _is_unused(self, location: Location, used: Sequence[Location]) -> bool:
        if (
            parse_version(location) is None
            or not self._root.contains(location.parent)
            or location.parent == self._root
        ):
            return False
        return not any(location.contains(other) or other.contains(location) for other in used)

    def _delete(self, note: DeletionNote) -> None:
        self._storage.remove(str(note.location))
        failpoint("flat.deleted")
        hour = note.location.parent
        if not self._storage.list(str(hour)):
            self._storage.remove(str(hour))
        self._storage.remove(str(self._file(note.location)))

    def _file(self, location: Location) -> Location:
        return self._directory.child(hashlib.sha256(str(location).encode()).hexdigest()[:32] + ".json")

    def _read(self, path: Location) -> DeletionNote | None:
        """Return the note in a file; None if the file is not a note."""
        try:
            form = json.loads(self._storage.read(str(path)) or "")
            return DeletionNote(parse_location(form["location"]), float(form["due"]), str(form["reason"]))
        except (ValueError, KeyError, TypeError, UnsafePath):
            return None
