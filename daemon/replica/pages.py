"""Pages of policies: the list, and one policy with everything that the status knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from daemon.http.transport.answering import Lane
from daemon.replica.external.status import EXTERNAL
from daemon.replica.loop import projection_name
from daemon.replica.status.compactions import COMPACTIONS
from daemon.replica.status.copies import COPIES
from daemon.replica.status.loads import LOADS
from daemon.replica.status.points import POINTS
from daemon.replica.verification.status import VERIFICATION
from daemon.site.consequences import describe_consequence
from daemon.site.drawing import BEHIND_S
from daemon.site.lists import PARAMETERS, list_rows
from daemon.site.overview import make_cards
from daemon.site.pages import Asked, PageRoute
from daemon.status.action_calls import call_policy
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.status.model import DaemonStatus, ProjectionView, StatusSection


R = TypeVar("R")
PATH: Final = "/policies"
_PREFIX: Final = projection_name("")
_ORDER: Final = ("failed", "backing-off", "stopped", "paused", "starting", "following", "promoted")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table of a policy, as far as the status names it."""

    table: str
    write_id: int | None
    open_writes: tuple[int, ...]
    state: str


def policy_pages(status: Callable[[], DaemonStatus]) -> Sequence[PageRoute]:
    """Return the routes of the pages."""

    def policies(asked: Asked) -> dict[str, Any]:
        views = sorted(_policies(status()), key=_rank)
        return {"listed": list_rows(asked, views, lambda view: f"{view.name} {view.target} {view.state}")}

    def policy(asked: Asked) -> dict[str, Any]:
        return policy_values(asked, status())

    return (
        PageRoute(PATH, "policies.html", policies, entry="Policies", parameters=PARAMETERS, lane=Lane.STATUS),
        PageRoute(f"{PATH}/{{name}}", "policy.html", policy, parameters=PARAMETERS, lane=Lane.STATUS),
    )


def policy_values(asked: Asked, status: DaemonStatus) -> dict[str, Any]:
    """Return the values of the page of one policy; raise NotFound, BadInput."""
    name = asked.name
    view = next((each for each in _policies(status) if each.name == _PREFIX + name), None)
    if view is None:
        raise NotFound("this daemon does not follow the policy", hint="Open the list.", policy=name[:200])
    needs = [each for each in status.needs_operator if each.object.partition(" ")[0] == view.name]
    stops = view.state == "paused"
    action = call_policy(name, "resume", "Resume") if stops else call_policy(name, "pause", "Pause")
    return {
        "now_s": status.time_s,
        "name": name,
        "view": view,
        "needs": make_cards(needs),
        "switch": None if view.state == "promoted" else action,
        "switch_text": describe_consequence(action),
        "point": _of(POINTS, status, name),
        "copies": _of(COPIES, status, name),
        "external": _of(EXTERNAL, status, name),
        "compactions": _of(COMPACTIONS, status, name),
        "verification": _of(VERIFICATION, status, name),
        "loads": [load for load in LOADS.of(status) if load.policy == name],
        "listed": list_rows(asked, _tables(status, view, name), lambda row: f"{row.table} {row.state}"),
    }


def _policies(status: DaemonStatus) -> list[ProjectionView]:
    return [view for view in status.projections if view.name.startswith(_PREFIX)]


def _rank(view: ProjectionView) -> tuple[bool, int, str]:
    """Return what sorts the policies: those with trouble first, then by state and name."""
    state = _ORDER.index(view.state) if view.state in _ORDER else 0
    is_late = view.state == "following" and (view.lag_s or 0.0) > BEHIND_S
    return not (view.quarantined or view.problem or is_late), state, view.name


def _of(section: StatusSection[tuple[R, ...]], status: DaemonStatus, policy: str) -> R | None:
    # The rows of every policy's section have the name of the policy.
    return next((row for row in section.of(status) if getattr(row, "policy", None) == policy), None)


def _tables(status: DaemonStatus, view: ProjectionView, policy: str) -> list[TableRow]:
    """Return the tables that the status names: written, quarantined, and loading ones, these first."""
    point = _of(POINTS, status, policy)
    ids, open_writes = ({}, {}) if point is None else (point.write_ids, point.open_writes)
    states = {load.table.partition(".")[2]: load.state for load in LOADS.of(status) if load.policy == policy}
    states |= {table.partition(".")[2]: "quarantined" for table in view.quarantined}
    names = sorted({*ids, *states}, key=lambda table: (table not in states, table))
    return [
        TableRow(name, ids.get(name), open_writes.get(name, ()), states.get(name, "following"))
        for name in names
    ]
