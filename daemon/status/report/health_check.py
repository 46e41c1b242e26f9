"""A line and an exit code for monitoring systems, in the form that Nagios defines (``tideline status
--check``).

The code follows from the same values as ``/readyz`` and the list of states that need an operator, so they all
agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from daemon.process.docs_address import with_addresses
from daemon.status.model import DaemonStatus, StatusSection
from state.errors import TidelineError
from state.value_text import count_text


class Health(IntEnum):
    """The exit codes."""

    OK = 0
    WARNING = 1
    """A loop is behind or does not follow, and recovers on its own."""
    CRITICAL = 2
    """The daemon does not run, or something needs an operator."""
    UNKNOWN = 3
    """The status is unreadable."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    health: Health
    text: str

    @property
    def exit_code(self) -> int:
        """Return the exit code of the command."""
        return int(self.health)

    @property
    def line(self) -> str:
        """Return the line to print."""
        return f"TIDELINE {self.health.name}: {' '.join(with_addresses(self.text).split())}"


def check_status(status: DaemonStatus, sections: Sequence[StatusSection[Any]], lag_max_s: float) -> Checked:
    """Return the health of a daemon; a lag above ``lag_max_s`` is a warning."""
    if status.state == "stopped":
        return Checked(Health.CRITICAL, "the daemon is not running")
    if actions := status.needs_operator:
        verb = "needs" if len(actions) == 1 else "need"
        first = f"{actions[0].kind} {actions[0].object}: {actions[0].reason}"
        return Checked(Health.CRITICAL, f"{count_text(len(actions), 'state')} {verb} an operator; {first}")
    if reasons := status.unready_reasons(lag_max_s, sections):
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return Checked(Health.WARNING, reasons[0] + more)
    return Checked(Health.OK, f"{count_text(len(status.projections), 'projection')} within the lag")


def unknown_status(error: TidelineError) -> Checked:
    """Return the result for an unreadable status."""
    return Checked(Health.UNKNOWN, f"[{error.code}] {error.message}")
