"""``tideline status --check`` and ``--problems``: trouble first, in 80 columns, with exit codes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.service.command_line import call
from daemon.status.actions import KINDS
from daemon.status.model import DaemonStatus, OperatorAction
from daemon.status.report.health_check import Health, check_status
from daemon.status.report.text import COLUMNS, problems_text, status_text
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import daemon_status


def healthy() -> DaemonStatus:
    status = daemon_status()
    return replace(status, projections=status.projections[:1])


def troubled() -> DaemonStatus:
    reason = "the file hdfs://a/b of event 5 is neither at the source nor in the change manager " * 3
    actions = [
        OperatorAction(kind, "replication:shop", reason, "docs/ERRORS.md#x", "tideline resume shop", 1e6)
        for kind in KINDS
    ]
    return replace(healthy(), needs_operator=tuple(actions))


def test_what_needs_an_operator_comes_first_and_fits_80_columns() -> None:
    text = status_text(troubled(), SECTIONS)
    assert text.split("\n\n")[1].startswith(f"NEEDS AN OPERATOR ({len(KINDS)})")
    assert max(map(len, text.splitlines())) <= COLUMNS


def test_problems_alone_leave_out_positions_and_say_if_there_are_none() -> None:
    assert "PROJECTION" not in problems_text(troubled(), SECTIONS)
    assert problems_text(healthy(), SECTIONS).endswith("no problems")
    assert not problems_text(troubled(), SECTIONS).endswith("no problems")


@pytest.mark.parametrize(
    ("status", "lag_max_s", "health"),
    [
        (healthy(), 10, Health.OK),
        (healthy(), 1, Health.WARNING),
        (daemon_status(), 10, Health.WARNING),
        (troubled(), 10, Health.CRITICAL),
        (daemon_status(state="stopped"), 10, Health.CRITICAL),
    ],
)
def test_the_exit_code_tells_how_urgent_it_is(status: DaemonStatus, lag_max_s: float, health: Health) -> None:
    checked = check_status(status, SECTIONS, lag_max_s)
    assert checked.exit_code == health
    assert checked.line.startswith(f"TIDELINE {health.name}: ")


def test_pages_that_a_problem_names_are_shown_as_commands() -> None:
    reason = "a table differs. See docs/guides/policies.md#a-policy-must-be-paused"
    action = OperatorAction("failed-loop", "replication:shop", reason, "docs/ERRORS.md", "x", None)
    view = replace(healthy().projections[0], problem=reason)
    status = replace(healthy(), needs_operator=(action,), projections=(view,))
    for text in (problems_text(status, SECTIONS), check_status(status, SECTIONS, 10).line):
        assert ".md" not in text
        assert "tideline docs guides/policies" in text


def test_a_status_that_cannot_be_read_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["status", "--check", "--url", "ftp://nonsense"]) == Health.UNKNOWN
    assert len(capsys.readouterr().out.splitlines()) == 1
