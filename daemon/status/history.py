"""Lag, events and copied bytes of the last day, for the sparklines of the site.

The history is a ring of ``POINTS`` intervals of five minutes each, in one small file, so that it survives
restarts. The daemon writes the file every quarter of an hour and when it stops, so ``kill -9`` loses at most
a quarter of an hour. Use the metrics for an exact or longer history. Reading is thread-safe; only one thread
takes the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from daemon.state_directory.record_file import RecordFile
from daemon.status.model import DaemonStatus, StatusSection


FILE: Final = "history.json"
INTERVAL_S: Final = 300
POINTS: Final = 24 * 3600 // INTERVAL_S
WRITTEN_S: Final = 900.0
"""How often to write the file."""


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Values observed in one interval."""

    number: int
    """Unix time of its start, divided by ``INTERVAL_S``."""
    observed_s: float = 0.0
    """The time for which the daemon observed the interval, which is less than the interval around a start."""
    lag_s: float | None = None
    """The largest lag of any projection."""
    events: int = 0
    """New events of all sources."""
    size_bytes: int = 0
    """Bytes copied."""


@dataclass(frozen=True, slots=True)
class _Sample:
    time_s: float
    event_ids: Mapping[str, int]
    size_bytes: int


class History:
    """The ring of intervals, and its file in the state directory."""

    def __init__(self, directory: Path, sections: Sequence[StatusSection[Any]]) -> None:
        self._file = RecordFile(directory / FILE, HistoryPoint, "the history of the site")
        self._sections = sections
        self._last: _Sample | None = None
        self._written_s = 0.0
        self.points: tuple[HistoryPoint, ...] = ()
        """The intervals of the last day in which the daemon ran, the oldest first."""

    def load(self) -> None:
        """Read the file; if it is missing or unreadable, the history is empty."""
        self.points = tuple(self._file.read())[-POINTS:]

    def take(self, status: DaemonStatus) -> None:
        """Add a status to the current interval, and write the file if it is due."""
        copied = sum(section.copied_bytes(section.of(status)) for section in self._sections)
        ids = {
            source.name: source.current_event_id
            for source in status.sources
            if source.current_event_id is not None
        }
        last, self._last = self._last, _Sample(status.time_s, ids, copied)
        number = int(status.time_s) // INTERVAL_S
        kept = tuple(point for point in self.points if number - POINTS < point.number < number)
        point = next((each for each in self.points if each.number == number), HistoryPoint(number))
        lags = [view.lag_s for view in status.projections if view.lag_s is not None]
        if point.lag_s is not None:
            lags.append(point.lag_s)
        point = replace(point, lag_s=max(lags, default=None))
        if last is not None:
            point = replace(
                point,
                observed_s=min(INTERVAL_S, point.observed_s + max(0.0, status.time_s - last.time_s)),
                events=point.events
                + sum(
                    max(0, event_id - last.event_ids.get(name, event_id)) for name, event_id in ids.items()
                ),
                size_bytes=point.size_bytes + max(0, copied - last.size_bytes),
            )
        self.points = (*kept, point)
        if status.time_s - self._written_s >= WRITTEN_S:
            self.write(status.time_s)

    def write(self, now_s: float) -> None:
        """Write the file."""
        self._written_s = now_s
        self._file.write(self.points)
