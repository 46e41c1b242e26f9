"""Retention: the time left until a reader's next event, or a file that it names, disappears unread.

A reader loses nothing as long as its next event is in the notification log, or in the topic if the relay
copied it. Both remove an event some time after its writing. Files that the source deleted stay in the change
manager for a while. A deletion may follow immediately after the event that names the file, so its time counts
from the event as well.

All results are lower bounds: cleaners run at intervals, Kafka deletes whole segments, and most files live on.
A reader that has read everything has the whole retention left, because the next event is not older than now.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


NEVER: Final = math.inf
"""The retention of a log or topic that removes nothing, and the time left without a known limit."""
WARNING_SHARE: Final = 0.5
CRITICAL_SHARE: Final = 0.1
"""Shares of a retention. With less than these left, an operator must act soon, or at once."""

_UNITS_S: Final = (
    (("d", "day", "days"), 86_400.0),
    (("h", "hour", "hours"), 3_600.0),
    (("m", "min", "minute", "minutes"), 60.0),
    (("s", "sec", "second", "seconds"), 1.0),
    (("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    (("us", "usec", "microsecond", "microseconds"), 1e-6),
    (("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
)
_SECONDS: Final = {name: seconds for names, seconds in _UNITS_S for name in names}


def parse_duration(text: str, unit: str) -> float | None:
    """Return the seconds of a duration as Hive writes it (``1d``, ``240h``, ``86400``); None if the text is
    not a duration.

    ``unit`` applies to a number without a unit.
    """
    match = re.fullmatch(r"\s*([0-9]{1,15})\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] and match[2] not in _SECONDS):
        return None
    return int(match[1]) * _SECONDS[match[2] or unit]


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Limits of a topic: the age of its records, and whether their bytes are limited too."""

    retention_s: float
    """``NEVER`` if unlimited."""
    limits_bytes: bool = False
    oldest_time_s: float | None = None
    """Unix time of the oldest record; None if there is none."""
    has_deleted: bool = False
    """Whether the topic has deleted records."""

    def kept_s(self, now_s: float) -> float:
        """Return how long the topic keeps a record.

        If its bytes are limited and it has deleted records, this is at most the age of its oldest record: the
        lifetime of records at the current rate.
        """
        if not self.limits_bytes or not self.has_deleted or self.oldest_time_s is None:
            return self.retention_s
        return min(self.retention_s, max(0.0, now_s - self.oldest_time_s))


def log_kept_s(
    configured_s: float | None, oldest_event_id: int | None, oldest_time_s: float | None, now_s: float
) -> float:
    """Return how long the notification log keeps an event.

    That is the configured time to live. If it is unknown and the log has been cleaned before, it is the age
    of the oldest event.
    """
    if configured_s is not None:
        return configured_s
    if oldest_event_id is None or oldest_event_id <= 1 or oldest_time_s is None:
        return NEVER
    return max(0.0, now_s - oldest_time_s)


@dataclass(frozen=True, slots=True)
class Margin:
    """The time left, and the whole retention."""

    left_s: float
    retention_s: float

    @property
    def is_short(self) -> bool:
        """Whether an operator must act soon."""
        return self.left_s < WARNING_SHARE * self.retention_s < NEVER

    @property
    def is_critical(self) -> bool:
        """Whether an operator must act at once."""
        return self.left_s < CRITICAL_SHARE * self.retention_s < NEVER


def find_margin(next_time_s: float | None, kept_s: Iterable[float], now_s: float) -> Margin:
    """Return the time left until an event written at ``next_time_s`` disappears from log and topic, which
    keep events for ``kept_s``. ``next_time_s`` is None if the reader has read everything.

    The longest of ``kept_s`` counts. If it is empty, there is no known limit.
    """
    retention_s = max(kept_s, default=NEVER)
    if next_time_s is None or retention_s == NEVER:
        return Margin(retention_s, retention_s)
    return Margin(min(retention_s, max(0.0, next_time_s + retention_s - now_s)), retention_s)


def next_event_time_s(
    found_s: float | None, lag_s: float | None, oldest_s: Iterable[float | None], now_s: float
) -> float:
    """Return the time of a reader's next event: ``found_s`` if known, otherwise the best lower bound.

    The lag of a reader never exceeds the age of its next event by much. If neither is known, the event counts
    as old as the oldest one in the log or topic.
    """
    if found_s is not None:
        return found_s
    if lag_s is not None:
        return now_s - lag_s
    return min((time_s for time_s in oldest_s if time_s is not None), default=now_s)
