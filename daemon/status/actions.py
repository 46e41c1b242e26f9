"""Everything in the daemon's status that needs an operator, as one list: what, since when, why, where to look and which command.

The list is computed from the status alone, so that ``tideline status``, ``/api/v1/status`` and the metric agree. What passes by
itself, such as a metastore that is down, is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from daemon.status.model import DaemonStatus, ProjectionView, SourceStatus, StatusSection


_PAGE: Final = "docs/OPERATIONS.md"
_REMOVE_CAUSE: Final = "remove the cause: it is tried again by itself"
KINDS: Final = (
    "quarantined-table",
    "failed-loop",
    "stuck-loop",
    "circuit-breaker",
    "paused-policy",
    "differing-answers",
)


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One state that needs an operator."""

    kind: str
    """``quarantined-table``, ``failed-loop``, ``stuck-loop``, ``circuit-breaker``, ``paused-policy`` or ``differing-answers``."""
    object: str
    """The table, loop or policy."""
    reason: str
    look: str
    """Where to look: a section of the documentation."""
    command: str
    """The command that ends the state once its cause is removed."""
    since_s: float | None = None
    """Unix time; None if it is not known."""


def list_actions(
    status: DaemonStatus, sections: Sequence[StatusSection[Any]] = ()
) -> tuple[OperatorAction, ...]:
    """Return the states of the daemon, and of the capabilities' sections, that need an operator."""
    further = (action for section in sections for action in section.actions(section.of(status)))
    return (*_actions(status), *further)


def _actions(status: DaemonStatus) -> Iterator[OperatorAction]:
    for name in status.stuck:
        yield OperatorAction("stuck-loop", name, "no heartbeat", f"{_PAGE}#monitoring", "restart the daemon")
    for source in status.sources:
        if source.relay_state == "failed":
            yield _of_relay(source)
    for view in status.projections:
        yield from _of_loop(view)
        yield from _of_tables(view)


def _of_relay(source: SourceStatus) -> OperatorAction:
    is_gap = source.code == "gap"
    return OperatorAction(
        "failed-loop",
        f"relay:{source.name}",
        source.problem or "the relay failed",
        f"{_PAGE}#the-relay-lost-events" if is_gap else f"{_PAGE}#the-relay-is-behind",
        f"tideline relay --gap {source.name}" if is_gap else _REMOVE_CAUSE,
        source.failed_since_s,
    )


def _of_loop(view: ProjectionView) -> Iterator[OperatorAction]:
    kind, _, name = view.name.partition(":")
    resume = f"tideline resume {name}" if kind == "replication" else _REMOVE_CAUSE
    if view.state == "failed":
        command = (
            f"tideline bootstrap {name} --gap" if (kind, view.code) == ("replication", "gap") else resume
        )
        look = f"{_PAGE}#a-projection-has-failed"
        yield OperatorAction(
            "failed-loop", view.name, view.problem or "failed", look, command, view.failed_since_s
        )
    elif view.code == "too-many-failures":
        look = f"{_PAGE}#several-tables-fail-in-a-short-time"
        yield OperatorAction("circuit-breaker", view.name, view.problem or "", look, "tideline status")
    elif view.state == "paused":
        look = f"{_PAGE}#a-policy-must-be-paused"
        reason = "an operator paused the policy"
        yield OperatorAction("paused-policy", view.name, reason, look, resume, view.paused_since_s)


def _of_tables(view: ProjectionView) -> Iterator[OperatorAction]:
    for failure in view.failures:
        yield OperatorAction(
            "quarantined-table",
            f"{view.name} {failure.table}",
            f"{failure.code}: {failure.reason}",
            f"{_PAGE}#a-table-is-quarantined",
            view.repair.format(table=failure.table),
            failure.time_s,
        )
