"""Which hours are old enough to be dropped.

Dropping the wrong partition cannot be undone, so the decision is a plain function of what is known, and cautious:

* "old" is measured from the newest *sealed* hour, hence from events, not from a clock: a stopped stream drops nothing more;
* one wild event time must not make the whole table old, nor a wrong clock: nothing is dropped while the newest sealed hour and this
  machine's clock are further apart than ``distance_max_s``, on either side; both would have to be wrong by the same amount;
* a run drops at most ``hours_max``, the oldest first, and the newest hour never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streaming.table.hours import HOUR_S


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from streaming.table.deletions import Deletions
    from streaming.table.port import FlatTable, HourPartition


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


def expired(hours: Iterable[int], sealed: Collection[int], now_s: float, rules: RetentionRules) -> Expiry:
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


def drop(
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
