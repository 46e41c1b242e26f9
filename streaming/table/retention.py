"""Which hours are old enough to be dropped.

Dropping the wrong partition cannot be undone, so the decision is a plain function of what is known, and cautious:

* "old" is measured from the newest *sealed* hour, hence from events, not from a clock: a stopped stream drops nothing more;
* one wild event time must not make the whole table old, nor a wrong clock: nothing is dropped while the newest sealed hour and this
  machine's clock are further apart than ``distance_max_s``, on either side; both would have to be wrong by the same amount;
* a run drops at most ``hours_max``, the oldest first, and the newest hour never.
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
from streaming.table.hours import HOUR_S, parse_version


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from streaming.table.flat_table import FlatTable, HourPartition
    from streaming.table.storage import Storage


HOURS_MAX: Final = 48
DISTANCE_MAX_S: Final = 2 * 86_400


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How long hours are kept."""

    keep_s: int
    """By event time, behind the newest sealed hour; 0 keeps everything."""
    hours_max: int = HOURS_MAX
    distance_max_s: int = DISTANCE_MAX_S


@dataclass(frozen=True, slots=True)
class Expiry:
    """What a run would drop. ``refused`` says why nothing is dropped although there might be something to."""

    hours: tuple[int, ...] = ()
    left: int = 0
    """Hours that are old enough too, for the next runs."""
    refused: str = ""


def find_expired(
    hours: Iterable[int], sealed: Collection[int], now_s: float, rules: RetentionRules
) -> Expiry:
    """Return which of ``hours`` are to be dropped; ``sealed`` are those whose files are complete, ``now_s`` this machine's clock."""
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
    """Drop ``partitions`` and have their directories deleted when ``due_s`` (seconds since 1970) has passed.

    The directories are noted first: a crash in between leaves notes that the deletion ignores, since partitions still
    point there, and never files that nobody remembers.
    """
    listed = list(partitions)
    for partition in listed:
        deletions.note(partition.location, due_s, "retention")
    table.drop_hours([partition.hour for partition in listed])
    return [partition.hour for partition in listed]


DIRECTORIES_MAX: Final = 200
"""Directories deleted in one pass."""
_FILE: Final = re.compile(r"[0-9a-f]{32}\.json")


@dataclass(frozen=True, slots=True)
class DeletionNote:
    """One directory to be deleted."""

    location: Location
    due_s: float
    """Seconds since 1970: not before."""
    reason: str


@dataclass(slots=True)
class SweepResult:
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

    def notes(self) -> Sequence[DeletionNote]:
        """Return all notes, those due first."""
        entries = self._storage.list(str(self._place))
        names = [entry.name for entry in entries if _FILE.fullmatch(entry.name)]
        found = [note for name in names if (note := self._read(self._place.child(name))) is not None]
        return sorted(found, key=lambda note: (note.due_s, note.location))

    def sweep(self, table: FlatTable, now_s: float) -> SweepResult:
        """Delete what is due and unused; the rest stays noted. Safe to repeat, and to be killed in."""
        notes = self.notes()
        due = [note for note in notes if note.due_s <= now_s][:DIRECTORIES_MAX]
        done = SweepResult(waiting=len(notes) - len(due))
        used = [partition.location for partition in table.partitions()] if due else []
        for note in due:
            if self._may_go(note.location, used):
                self._delete(note)
                done.deleted.append(note.location)
            else:
                done.kept.append(note.location)
        return done

    def _may_go(self, place: Location, used: Sequence[Location]) -> bool:
        if (
            parse_version(place) is None
            or not self._root.contains(place.parent)
            or place.parent == self._root
        ):
            return False
        return not any(place.contains(other) or other.contains(place) for other in used)

    def _delete(self, note: DeletionNote) -> None:
        self._storage.remove(str(note.location))
        failpoint("flat.deleted")
        hour = note.location.parent
        if not self._storage.list(str(hour)):
            self._storage.remove(str(hour))
        self._storage.remove(str(self._file(note.location)))

    def _file(self, location: Location) -> Location:
        return self._place.child(hashlib.sha256(str(location).encode()).hexdigest()[:32] + ".json")

    def _read(self, place: Location) -> DeletionNote | None:
        """Read a note; None for one that is no note, which then stays where it is."""
        try:
            found = json.loads(self._storage.read(str(place)) or "")
            return DeletionNote(parse(found["location"]), float(found["due"]), str(found["reason"]))
        except (ValueError, KeyError, TypeError, UnsafePath):
            return None
