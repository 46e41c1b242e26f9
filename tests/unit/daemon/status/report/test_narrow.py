"""``tideline status POLICY``, ``--table`` and ``--watch``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.consumer.event_reader import Stages
from daemon.service.capabilities import all_sections
from daemon.status.actions import list_actions
from daemon.status.model import DaemonStatus, OperatorAction, ProjectionView
from daemon.status.report.commands import _watch
from daemon.status.report.summary import narrow
from daemon.status.report.text import status_text
from handlers.failures import TableFailure
from state.errors import NotFound
from tests.builders.daemon.loops import daemon_status


LOST = TableFailure("shop.a", 7, 1, "file-lost", "the file is gone")


@pytest.fixture
def status() -> DaemonStatus:
    views = (
        ProjectionView("replication:shop", "lake", "following", quarantined=("shop.a",), failures=(LOST,)),
        ProjectionView("replication:web", "lake", "paused"),
        ProjectionView("catalog:lake", "lake", "following"),
    )
    made = replace(daemon_status(), projections=views, sections={})
    return replace(made, needs_operator=tuple(list_actions(made, all_sections())))


@pytest.mark.parametrize(
    ("policy", "table", "views", "states"),
    [
        (None, None, 3, ["paused-policy", "quarantined-table"]),
        ("shop", None, 1, ["quarantined-table"]),
        ("Replication:Web", None, 1, ["paused-policy"]),
        (None, "shop.A", 3, ["paused-policy", "quarantined-table"]),
        ("shop", "shop.b", 1, []),
    ],
)
def test_a_status_is_narrowed_to_a_policy_and_a_table(
    status: DaemonStatus, policy: str | None, table: str | None, views: int, states: list[str]
) -> None:
    narrowed = narrow(status, all_sections(), policy, table)
    assert len(narrowed.projections) == views
    assert sorted(action.kind for action in narrowed.needs_operator) == states
    assert ("shop.a" in status_text(narrowed, all_sections())) is ("quarantined-table" in states)


def test_a_policy_has_the_states_of_its_relay(status: DaemonStatus) -> None:
    lost = OperatorAction("lost-events", "relay:lake", "gone", "daemon.md", "tideline gap source lake")
    other = replace(lost, object="relay:pond")
    found = narrow(replace(status, needs_operator=(lost, other)), all_sections(), "web", None)
    assert found.needs_operator == (lost,)


def test_an_unknown_policy_is_an_error_that_names_the_known_ones(status: DaemonStatus) -> None:
    with pytest.raises(NotFound) as error:
        narrow(status, all_sections(), "shpo", None)
    assert error.value.hint == "It follows: shop, web, lake."


class Stop:
    """A pause that ends the watch after some rounds, as Ctrl-C does."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, _seconds: float) -> None:
        self.rounds -= 1
        if not self.rounds:
            raise KeyboardInterrupt


def test_a_watch_prints_a_line_for_each_change_if_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = iter(["OK", "OK", "CRITICAL"])
    _watch(lambda: [daemon_status()], lambda _: "never", lambda _: next(lines), Stop(3))
    assert [line.split(" UTC ")[1] for line in capsys.readouterr().out.splitlines()] == ["OK", "CRITICAL"]


def test_a_watch_replaces_the_screen_of_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    cleared: list[bool] = []
    monkeypatch.setattr("click.clear", lambda: cleared.append(True))
    _watch(lambda: [daemon_status()], lambda _: "the status", lambda _: "never", Stop(2))
    assert (capsys.readouterr().out, len(cleared)) == ("the status\nthe status\n", 2)


def test_the_status_of_one_policy_says_where_the_time_of_its_last_event_went() -> None:
    view = ProjectionView("replication:web", "lake", "following", stages=Stages(0.8, 0.012, 0.1, 1.3))
    text = status_text(replace(daemon_status(), projections=(view,), sections={}), ())
    line = "last event: visible after 2.212 s (relay 0.800 s, read 0.012 s, queue 0.100 s, apply 1.300 s)"
    assert line in text.splitlines()
