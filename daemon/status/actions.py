"""Lists the states that need an operator, each with its subject, start, reason and remedy.

The list follows from the status alone, so that ``tideline status``, ``/api/v1/status`` and the metric agree.
It contains every failed loop; the sections of the status add their own states (``StatusSection.actions``). It
does not contain states that end on their own, such as an unreachable metastore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from daemon.status.action_calls import ActionCall, call_policy, call_projection, call_source
from daemon.status.model import (
    ENDED,
    NEW,
    DaemonStatus,
    FailedLoop,
    OperatorAction,
    ProjectionView,
    StatusSection,
)
from daemon.terminal.layout import moment_text
from state.errors import GapDetected
from state.value_text import count_text


DAEMON: Final = "docs/runbooks/daemon.md"
REPLICA: Final = "docs/runbooks/replica.md"
RELAY: Final = "docs/runbooks/relay.md"
FLAT: Final = "docs/runbooks/flat-tables.md"
ENDPOINT: Final = "docs/runbooks/endpoint.md"
POLICIES: Final = "docs/guides/policies.md"
MONITORING: Final = "docs/guides/monitoring.md"
REMOVE_CAUSE: Final = "remove the cause; the daemon then tries again"
SHORT_RETENTION: Final = "remove the cause of the lag, or raise the retention"
SCAN: Final = "add the table to relay.scan_tables of the source"
TABLES_MAX: Final = 20
"""Maximum number of reported tables of a source."""
_SKIP: Final = "Skip the lost events"
FAILING_TRIES: Final = 3
"""A load that failed so often in a row needs an operator."""
KINDS: Final = (
    "quarantined-table",
    "failed-loop",
    "stuck-loop",
    "circuit-breaker",
    "paused-policy",
    "new-policy",
    "failing-load",
    "failing-copy",
    "failed-compaction",
    "waiting-compaction",
    "differing-table",
    "left-table",
    "retention",
    "dead-letters",
    "differing-answers",
    "unnamed-writes",
)
"""All kinds of states that need an operator. docs/guides/monitoring.md describes each."""
_SECTIONS: Final = {
    "replication": f"{REPLICA}#a-projection-has-failed",
    "catalog": f"{REPLICA}#a-projection-has-failed",
    "verification": f"{REPLICA}#a-projection-has-failed",
    "compactions": f"{REPLICA}#the-target-has-many-small-files",
    "relay": f"{RELAY}#the-relay-is-behind",
    "watch": f"{RELAY}#the-relay-is-behind",
    "retention": f"{RELAY}#events-or-files-will-be-removed-before-they-are-read",
    "flat": f"{FLAT}#the-driver-of-a-flat-table-keeps-failing",
    "serve": f"{ENDPOINT}#the-metastore-endpoint-is-down-or-restarts",
    "databases": f"{POLICIES}#all-databases-that-match-a-pattern",
    "mining": f"{FLAT}#users-query-a-key-but-it-does-not-become-a-column",
}
"""The runbook of a failed loop, by the first part of its name."""
_UNKNOWN: Final = f"{MONITORING}#monitoring"


def list_actions(
    status: DaemonStatus, sections: Sequence[StatusSection[Any]] = ()
) -> tuple[OperatorAction, ...]:
    """Return the states of the daemon that need an operator."""
    own = tuple(_actions(status))
    return own + tuple(action for section in sections for action in section.actions(section.of(status)))


def _actions(status: DaemonStatus) -> Iterator[OperatorAction]:
    for name in status.stuck:
        yield OperatorAction("stuck-loop", name, "no heartbeat", _UNKNOWN, "restart the daemon")
    gaps = {loop.name for loop in status.failed_loops if loop.code == GapDetected.code}
    gap_sources = {view.name: view.source for view in status.projections if view.relay in gaps}
    for loop in status.failed_loops:
        yield _of_failed_loop(loop, gap_sources.get(loop.name))
    for source in status.sources:
        for table in source.scanned[:TABLES_MAX]:
            reason = "a program writes into its partitions without events"
            look = f"{RELAY}#a-program-writes-without-events"
            yield OperatorAction("unnamed-writes", f"{source.name} {table}", reason, look, SCAN)
    for view in status.projections:
        if view.state not in ENDED:
            yield from _of_projection(view)
            yield from _of_tables(view)


def _of_failed_loop(loop: FailedLoop, gap_source: str | None) -> OperatorAction:
    """Return the state of a loop. The relay of ``gap_source`` has lost the events first."""
    kind, _, name = loop.name.partition(":")
    look, command = _SECTIONS.get(kind, _UNKNOWN), REMOVE_CAUSE
    action: ActionCall | None = None
    match kind, loop.code:
        case "relay", "gap":
            look, command = f"{RELAY}#the-relay-lost-events", f"tideline gap source {name}"
            action = call_source(name, "cross-gap", _SKIP)
        case "relay", "inconsistent":
            look = f"{RELAY}#the-source-was-restored-from-a-backup"
        case "replication", "gap" if gap_source is not None:
            command = f"tideline gap source {gap_source}"  # then the one of the policy
        case "replication", "gap":
            command, action = f"tideline gap policy {name}", call_policy(name, "cross-gap", _SKIP)
        case "replication", "fenced":
            look, command = f"{REPLICA}#two-instances-for-one-target", f"tideline resume {name}"
            action = call_policy(name, "resume", "Resume")
        case "replication", _:
            command, action = f"tideline resume {name}", call_policy(name, "resume", "Resume")
    return OperatorAction("failed-loop", loop.name, loop.problem, look, command, loop.since_s, action)


def _of_projection(view: ProjectionView) -> Iterator[OperatorAction]:
    _, _, name = view.name.partition(":")
    if view.code == "too-many-failures" and view.state != "failed":
        look = f"{REPLICA}#several-tables-fail-in-a-short-time"
        yield OperatorAction("circuit-breaker", view.name, view.problem or "", look, REMOVE_CAUSE)
    if view.state == "paused":
        look = f"{POLICIES}#a-policy-must-be-paused"
        because = f": {view.pause_reason}" if view.pause_reason else ""
        reason, resume = f"an operator paused the policy{because}", f"tideline resume {name}"
        action = call_projection(view.name, "resume", "Resume")
        yield OperatorAction("paused-policy", view.name, reason, look, resume, view.paused_since_s, action)
    if view.state == NEW:
        look, command = f"{POLICIES}#a-policy-waits-for-its-bootstrap", f"tideline bootstrap {name}"
        action = call_projection(view.name, "bootstrap", "Bootstrap")
        reason = "the policy was never bootstrapped"
        yield OperatorAction("new-policy", view.name, reason, look, command, None, action)
    if view.undecodable:
        reason = (
            f"{count_text(view.undecodable, 'record')} could not be decoded since the start of the daemon"
        )
        yield OperatorAction("dead-letters", view.name, reason, f"{RELAY}#dead-letters", "tideline dlq list")


def _of_tables(view: ProjectionView) -> Iterable[OperatorAction]:
    for failure in view.failures:
        yield OperatorAction(
            "quarantined-table",
            f"{view.name} {failure.table}",
            failure.reason if failure.reason.startswith("[") else f"[{failure.code}] {failure.reason}",
            f"{REPLICA}#a-table-is-quarantined",
            view.repair_command(failure.table),
            failure.time_s,
            call_projection(view.name, "release", "Release", table=failure.table),
        )
    for load in view.failing:
        if load.tries >= FAILING_TRIES:
            yield describe_failing_load(
                f"{view.name} {load.table}",
                (load.tries, load.reason),
                load.next_s,
                view.repair_command(load.table),
            )


def describe_failing_load(
    name: str,
    failed: tuple[int, str],
    next_s: float | None,
    command: str,
    since_s: float | None = None,
    action: ActionCall | None = None,
) -> OperatorAction:
    """Return the state of a load that keeps failing: the number of failures, the reason and the next try."""
    tries, problem = failed
    at = "" if next_s is None else f", next try {moment_text(next_s)}"
    reason = f"failed {count_text(tries, 'time')}{at}: {problem}"
    look = f"{REPLICA}#a-load-keeps-failing"
    return OperatorAction("failing-load", name, reason, look, command, since_s, action)
