"""The loop of a catalog continues after lost events by itself: it loads all tables again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from daemon.catalog.loop import _Catalog
from daemon.process.loops.retry_policy import Verdict, judge
from state.errors import GapDetected
from state.event_log.positions import Position


class FakeProjection:
    """Counts how often a gap was crossed."""

    def __init__(self) -> None:
        self.crossed = 0
        self.source = "lake"

    def cross_gap(self) -> tuple[Position, Position]:
        """Count."""
        self.crossed += 1
        return Position(4), Position(9)


def test_after_a_gap_the_tables_are_loaded_and_the_loop_runs_again() -> None:
    projection = FakeProjection()
    catalog: Any = object.__new__(_Catalog)
    catalog._opened = SimpleNamespace(projection=projection)
    error = catalog._cross_gap(GapDetected("events are missing", expected=5, found=8))
    assert projection.crossed == 1
    assert judge(error) is Verdict.RETRY
