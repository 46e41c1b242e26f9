"""The list of everything that needs an operator."""

from __future__ import annotations

from daemon.status.actions import KINDS, list_actions
from daemon.status.model import DaemonStatus, ProjectionView, SourceStatus
from daemon.status.text import status_text
from state.table_failure import TableFailure


def view(name: str, state: str = "following", **fields: object) -> ProjectionView:
    return ProjectionView(name, "lake", state, **fields)  # type: ignore[arg-type]


def status(*views: ProjectionView, **fields: object) -> DaemonStatus:
    made = DaemonStatus("1", "host", 1, 0.0, 10.0, projections=views, **fields)  # type: ignore[arg-type]
    return DaemonStatus(
        "1",
        "host",
        1,
        0.0,
        10.0,
        projections=views,
        needs_operator=list_actions(made),
        **fields,  # type: ignore[arg-type]
    )


def test_a_daemon_without_problems_needs_no_operator() -> None:
    assert (
        status(
            view("replication:shop"), sources=(SourceStatus("lake", relay_state="following"),)
        ).needs_operator
        == ()
    )


def test_every_state_that_needs_an_operator_is_listed_with_its_command() -> None:
    failure = TableFailure("shop.orders", 7, 5, "file-lost", "gone")
    found = status(
        view("replication:a", failures=(failure,), repair="tideline release a {table}"),
        view("replication:b", "failed", problem="events are missing", code="gap"),
        view("replication:c", "paused", paused_since_s=3),
        view("replication:d", "backing-off", code="too-many-failures", problem="several"),
        view("catalog:lake", "failed", problem="bad"),
        stuck=("relay:lake",),
        sources=(
            SourceStatus("lake", relay_state="failed", problem="gap", code="gap"),
            SourceStatus("pond", relay_state="failed", problem="other", code="inconsistent"),
        ),
    )
    commands = {(action.kind, action.object): action.command for action in found.needs_operator}
    passes = "remove the cause: it is tried again by itself"
    assert commands == {
        ("quarantined-table", "replication:a shop.orders"): "tideline release a shop.orders",
        ("failed-loop", "replication:b"): "tideline bootstrap b --gap",
        ("paused-policy", "replication:c"): "tideline resume c",
        ("circuit-breaker", "replication:d"): "tideline status",
        ("failed-loop", "catalog:lake"): passes,
        ("stuck-loop", "relay:lake"): "restart the daemon",
        ("failed-loop", "relay:lake"): "tideline relay --gap lake",
        ("failed-loop", "relay:pond"): passes,
    }
    of_sections = {"differing-answers"}
    assert {action.kind for action in found.needs_operator} | of_sections == set(KINDS)
    assert DaemonStatus.from_json(found.to_json(), ()).needs_operator == found.needs_operator
    text = status_text(found, ())
    assert all(command in text for command in commands.values())


def test_something_that_passes_by_itself_needs_no_operator() -> None:
    assert status(view("replication:a", "backing-off", code="metastore-unavailable")).needs_operator == ()
