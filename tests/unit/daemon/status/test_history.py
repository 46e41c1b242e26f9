"""The history of the last day: its intervals, its file, and its sparklines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from daemon.replica.status.copies import COPIES, CopyStatus
from daemon.site.sparklines import draw_sparklines
from daemon.status.history import FILE, INTERVAL_S, POINTS, History, HistoryPoint
from daemon.status.model import DaemonStatus
from tests.builders.daemon.site_states import healthy_status


NOON_S = 1_700_000_100
"""The start of an interval."""


def at(second: float, event_id: int = 0, size_bytes: int = 0, lag_s: float = 0.0) -> DaemonStatus:
    """Return the status of a time after noon."""
    status = healthy_status()
    return replace(
        status,
        time_s=NOON_S + second,
        sources=(replace(status.sources[0], current_event_id=event_id),),
        projections=(replace(status.projections[0], lag_s=lag_s),),
        sections={"copies": (CopyStatus("shop", size_bytes=size_bytes),)},
    )


def observed(directory: Path, *statuses: DaemonStatus) -> History:
    """Return a history that was loaded and has seen the statuses."""
    history = History(directory, (COPIES,))
    history.load()
    for status in statuses:
        history.take(status)
    return history


def test_an_interval_has_its_largest_lag_and_its_differences(tmp_path: Path) -> None:
    history = observed(
        tmp_path, at(0, 100, 10, 3.0), at(60, 160, 30, 9.0), at(120, 150, 0, 1.0), at(310, 170, 40, 2.0)
    )
    number = NOON_S // INTERVAL_S
    assert history.points == (
        HistoryPoint(number, 120.0, 9.0, 60, 20),
        HistoryPoint(number + 1, 190.0, 2.0, 20, 40),
    )


def test_the_history_survives_a_restart_and_forgets_after_a_day(tmp_path: Path) -> None:
    first = observed(tmp_path, at(0), at(60, 60))
    first.write(NOON_S + 60)
    second = observed(tmp_path, at(90, 500), at(100, 510))
    # Events from before the second start are not counted, because they may be those of a week.
    assert second.points == (HistoryPoint(NOON_S // INTERVAL_S, 70.0, 0.0, 70, 0),)
    second.take(at(POINTS * INTERVAL_S, 510))
    assert [point.number for point in second.points] == [NOON_S // INTERVAL_S + POINTS]


def test_the_file_is_bounded_and_written_seldom(tmp_path: Path) -> None:
    history = observed(tmp_path, at(0))
    written_ns = (tmp_path / FILE).stat().st_mtime_ns
    for second in range(15, 900, 15):
        history.take(at(second, second, second))
    assert (tmp_path / FILE).stat().st_mtime_ns == written_ns
    for number in range(1, POINTS * 2):
        history.take(at(number * INTERVAL_S, number * 10**6, number * 10**12, 86_400.5))
    assert len(history.points) == POINTS
    assert (tmp_path / FILE).stat().st_size < 32_000


@pytest.mark.parametrize("text", ["", "[{]", '{"a": 1}', '[{"number": "x"}]', "\x00"])
def test_a_damaged_file_is_an_empty_history(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert observed(tmp_path).points == ()


def test_a_volume_that_cannot_be_written_does_not_end_the_daemon(tmp_path: Path) -> None:
    history = History(tmp_path / "missing", (COPIES,))
    history.take(at(0))
    assert len(history.points) == 1


def test_a_sparkline_is_interrupted_where_the_daemon_did_not_run() -> None:
    number = NOON_S // INTERVAL_S
    points = [HistoryPoint(number - gap, 300.0, 10.0 * gap, 300, 2**20 * 300) for gap in (5, 4, 1)]
    lag, events, copied = draw_sparklines(points, NOON_S)
    assert (lag.latest, lag.highest) == ("10 s", "50 s")
    assert lag.path == "M282 1.0h1L283 8.6h1M286 31.4h1"
    assert (events.latest, copied.highest) == ("1.0/s", "1.0 MiB/s")
    assert draw_sparklines([], NOON_S) == []
