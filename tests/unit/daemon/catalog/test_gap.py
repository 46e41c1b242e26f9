"""The loop of a catalog continues after lost events by itself: it loads all tables again."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from daemon.catalog import loop as catalog_loop
from daemon.process.heartbeat import Pulse
from daemon.process.retry_policy import Verdict, judge
from state.errors import GapDetected, Interrupted
from state.positions import Position


if TYPE_CHECKING:
    from collections.abc import Callable


class FakeProjection:
    """Counts how often a gap was crossed."""

    def __init__(self) -> None:
        self.crossed = 0

    def cross_gap(self) -> tuple[Position, Position]:
        """Count."""
        self.crossed += 1
        return Position(4), Position(9)


def test_a_gap_is_crossed_and_the_loop_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: Any) -> None:
        raise GapDetected("events are missing", expected=5, found=8)

    monkeypatch.setattr(catalog_loop, "follow", lose)
    projection = FakeProjection()
    loop: Any = object.__new__(catalog_loop._Catalog)
    loop._pulse, loop._reader, loop._report, loop.status = Pulse(), SimpleNamespace(), None, None
    loop._served = SimpleNamespace(source="lake")
    loop._opened = SimpleNamespace(projection=projection)
    run: Callable[[Any], None] = loop.run
    with pytest.raises(Interrupted) as raised:
        run(SimpleNamespace(stopping=threading.Event(), beat=lambda: None))
    assert projection.crossed == 1
    assert judge(raised.value) is Verdict.RETRY
