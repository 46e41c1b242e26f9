"""The section ``retention`` of the status: what sources keep, and the time left for their readers."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from daemon.retention.measurement import Measurement, ReaderMeasurement, margins
from daemon.status.actions import RELAY, SHORT_RETENTION
from daemon.status.metrics import families
from daemon.status.model import OperatorAction, StatusSection, TimeLeft
from daemon.terminal.layout import duration_text, id_text, table_text
from state.event_log.retention import Margin


_DIRECTORIES: Final = "directories of transactions"
_LOOK: Final = f"{RELAY}#events-or-files-will-be-removed-before-they-are-read"
_SOURCE_GAUGES: Final = (
    (
        "tideline_source_oldest_event_id",
        "Oldest event id in the notification log.",
        "oldest_event_id",
    ),
    ("tideline_source_log_retention_seconds", "How long the notification log keeps an event.", "log_s"),
    ("tideline_source_topic_retention_seconds", "How long the topic keeps a record.", "topic_s"),
    (
        "tideline_source_files_retention_seconds",
        "How long the change manager keeps a deleted file.",
        "files_s",
    ),
)
_READER_GAUGES: Final = (
    (
        "tideline_gap_left_seconds",
        "Time until the reader's next event is removed from the topic and the notification log.",
        "left_s",
    ),
    (
        "tideline_gap_retention_seconds",
        "Time for which an event can be read; a reader that has caught up has all of it left.",
        "retention_s",
    ),
    (
        "tideline_files_left_seconds",
        "Time until the change manager may remove a file that the reader's next event names.",
        "files_left_s",
    ),
    (
        "tideline_directories_left_seconds",
        "Time until the source may compact a directory that the relay has to list for its next event.",
        "directories_left_s",
    ),
    (
        "tideline_directories_retention_seconds",
        "Interval at which the source looks for tables to compact, if the relay lists directories.",
        "directories_s",
    ),
)


@dataclass(frozen=True, slots=True)
class ReaderRetention:
    """The time left for one relay or projection. A value is None if no limit is known."""

    reader: str
    event_id: int
    left_s: float | None
    """Time until its next event becomes unreadable."""
    retention_s: float | None
    files_left_s: float | None
    """Time until the change manager may remove a file that its next event names."""
    files_retention_s: float | None
    directories_left_s: float | None = None
    """Time until the source may compact a directory that a relay has to list because the source does not
    report write events."""
    directories_s: float | None = None
    """How often the source looks for tables to compact."""


@dataclass(frozen=True, slots=True)
class SourceRetention:
    """The retention of one source. A value is None if it is unknown or unlimited."""

    source: str
    measured_s: float
    """Unix time of the measurement."""
    oldest_event_id: int | None
    oldest_event_s: float | None
    """Unix time of the oldest event in the notification log."""
    log_s: float | None
    topic_s: float | None
    oldest_record_s: float | None
    """Unix time of the oldest record in the topic."""
    files_s: float | None
    readers: tuple[ReaderRetention, ...]


def describe(measured: Measurement, now_s: float) -> SourceRetention:
    """Return the row of a measurement; the times left in it are those at ``now_s``."""
    return SourceRetention(
        measured.source,
        measured.time_s,
        measured.oldest_event_id,
        measured.oldest_time_s,
        _finite(measured.log_s),
        _finite(measured.topic.kept_s(now_s)),
        measured.topic.oldest_time_s,
        _finite(measured.files_s),
        tuple(_describe_reader(*each) for each in margins(measured, now_s)),
    )


def _describe_reader(measured: ReaderMeasurement, events: Margin, files: Margin) -> ReaderRetention:
    reader = measured.reader
    of_files = (_finite(files.left_s), _finite(files.retention_s))
    unknown = (None, None)
    return ReaderRetention(
        reader.name,
        reader.event_id,
        _finite(events.left_s),
        _finite(events.retention_s),
        *(unknown if reader.lists_writes else of_files),
        *(of_files if reader.lists_writes else unknown),
    )


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _margin(left_s: float | None, retention_s: float | None) -> Margin | None:
    return None if left_s is None or retention_s is None else Margin(left_s, retention_s)


def _limits(value: tuple[SourceRetention, ...]) -> Iterator[tuple[ReaderRetention, str, Margin]]:
    """Yield each reader with what it would lose next, and the time left."""
    for source in value:
        for reader in source.readers:
            for what, margin in (
                ("events", _margin(reader.left_s, reader.retention_s)),
                ("deleted files", _margin(reader.files_left_s, reader.files_retention_s)),
                (_DIRECTORIES, _margin(reader.directories_left_s, reader.directories_s)),
            ):
                if margin is not None:
                    yield reader, what, margin


class RetentionSection(StatusSection[tuple[SourceRetention, ...]]):
    """The section ``retention``."""

    key = "retention"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[SourceRetention, ...])

    def without(
        self, value: tuple[SourceRetention, ...], hidden: Container[str]
    ) -> tuple[SourceRetention, ...]:
        """Return the sources without hidden projections among their readers."""
        return tuple(
            replace(row, readers=tuple(each for each in row.readers if each.reader not in hidden))
            for row in value
        )

    # ARG002: values are those of the status' time
    def text(self, value: tuple[SourceRetention, ...], now_s: float) -> str:  # noqa: ARG002
        """Return a row for each reader."""
        header = ("RETENTION", "SOURCE", "OLDEST EVENT", "EVENTS KEPT", "LEFT", "FILES KEPT", "LEFT")
        rows = [
            (
                reader.reader,
                source.source,
                id_text(source.oldest_event_id),
                duration_text(reader.retention_s),
                duration_text(reader.left_s),
                duration_text(reader.files_retention_s or reader.directories_s),
                duration_text(
                    reader.files_left_s if reader.directories_s is None else reader.directories_left_s
                ),
            )
            for source in value
            for reader in source.readers
        ]
        return table_text(header, rows)

    def actions(self, value: tuple[SourceRetention, ...]) -> Iterable[OperatorAction]:
        """Return one entry for each reader with less than half of a retention time left."""
        for reader, what, margin in _limits(value):
            if margin.is_short:
                kept, left = duration_text(margin.retention_s), duration_text(margin.left_s)
                reason = f"{what} that it has not read are kept for {kept}; the next may be removed in {left}"
                yield OperatorAction("retention", reader.reader, reason, _LOOK, SHORT_RETENTION)

    def unready_reasons(self, value: tuple[SourceRetention, ...]) -> list[str]:
        """Return the readers with less than a tenth of a retention time left.

        Directories do not count: their tables load again.
        """
        return [
            f"{reader.reader}: {what} that it has not read may be removed in {duration_text(margin.left_s)}"
            for reader, what, margin in _limits(value)
            if margin.is_critical and what != _DIRECTORIES
        ]

    def time_left(self, value: tuple[SourceRetention, ...], loop: str) -> Iterator[TimeLeft]:
        """Yield the time left of each reader, for events and for the change manager's files."""
        for reader in (each for source in value for each in source.readers if each.reader == loop):
            for what, left_s, retention_s in (
                ("events", reader.left_s, reader.retention_s),
                ("deleted files", reader.files_left_s, reader.files_retention_s),
            ):
                if left_s is not None and retention_s:
                    yield TimeLeft(what, left_s, retention_s)

    def families(self, value: tuple[SourceRetention, ...]) -> Iterable[Metric]:
        """Yield the content of sources, and the time left to readers."""
        yield from families(
            GaugeMetricFamily, _SOURCE_GAUGES, {"source": [row.source for row in value]}, value
        )
        rows = [(source.source, reader) for source in value for reader in source.readers]
        labels = {"reader": [reader.reader for _, reader in rows], "source": [source for source, _ in rows]}
        yield from families(GaugeMetricFamily, _READER_GAUGES, labels, [reader for _, reader in rows])


RETENTION: Final = RetentionSection()
