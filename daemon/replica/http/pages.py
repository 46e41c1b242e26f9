"""Pages of policies: the list, and one policy with everything that the status knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daemon.consumer.event_reader import Stages
from daemon.consumer.shared.window import SharedEvent
from daemon.http.transport.answering import Lane
from daemon.replica.copy_jobs.progress import job_line
from daemon.replica.external.status import EXTERNAL
from daemon.replica.http.table_pages import PolicyTableList, row_of, table_values
from daemon.replica.known_tables import KnownTables
from daemon.replica.loop import projection_name
from daemon.replica.status.compactions import COMPACTIONS
from daemon.replica.status.copies import COPIES
from daemon.replica.status.loads import LOADS
from daemon.replica.status.points import POINTS
from daemon.replica.verification.status import VERIFICATION
from daemon.site.blocked import make_blocked_cards
from daemon.site.consequences import describe_consequence
from daemon.site.drawing import BEHIND_S
from daemon.site.lists import ListParameters, list_found, list_rows
from daemon.site.overview import make_cards
from daemon.site.pages import Asked, PageRoute
from daemon.status.action_calls import call_policy
from daemon.status.model import ENDED, NEW, DaemonStatus, ProjectionView, StatusSection
from state.errors import NotFound


PATH: Final = "/policies"
_PREFIX: Final = projection_name("")
BAR: Final = 1000
_STAGES: Final = {
    "relay": "until the record is in the topic",
    "read": "until it is decoded",
    "queue": "until its batch begins",
    "apply": "until the batch is applied",
}
_SWITCHES: Final = {"paused": ("resume", "Resume"), NEW: ("bootstrap", "Bootstrap")}
"""The action that the page of a policy offers first, and the text of its button, by the state."""
_ORDER: Final = (
    *("failed", "backing-off", "stopped", NEW, "paused", "starting", "following"),
    *("promoted", "retired"),
)


@dataclass(frozen=True, slots=True)
class PolicySite:
    """Content of the pages."""

    status: Callable[[], DaemonStatus]
    sections: Sequence[StatusSection[Any]] = ()
    tables: Callable[[str], KnownTables | None] = lambda _: None
    """Returns the facts about the tables of a policy."""
    recent: Callable[[str], Sequence[SharedEvent]] = lambda _: ()
    """Returns the last events of a source."""


def policy_pages(site: PolicySite) -> Sequence[PageRoute]:
    """Return the routes of the pages."""

    def policies(asked: Asked) -> dict[str, Any]:
        views = sorted(_policies(site.status()), key=_rank)
        return {"listed": list_rows(asked, views, lambda view: f"{view.name} {view.target} {view.state}")}

    def policy(asked: Asked) -> dict[str, Any]:
        return _policy_values(asked, site, site.status())

    def table(asked: Asked) -> dict[str, Any]:
        status = site.status()
        view = find_policy(status, asked.name)
        return table_values(asked, status, view, site.tables(asked.name), site.recent(view.source))

    return (
        PageRoute(
            PATH, "policies.html", policies, entry="Policies", parameters=ListParameters, lane=Lane.STATUS
        ),
        PageRoute(f"{PATH}/{{name}}", "policy.html", policy, parameters=ListParameters, lane=Lane.STATUS),
        PageRoute(f"{PATH}/{{name}}/tables/{{table}}", "table.html", table, lane=Lane.STATUS),
    )


def _policy_values(asked: Asked, site: PolicySite, status: DaemonStatus) -> dict[str, Any]:
    name = asked.name
    view = find_policy(status, name)
    needs = [each for each in status.needs_operator if each.object.partition(" ")[0] in view.loops]
    action = call_policy(name, *_SWITCHES.get(view.state, ("pause", "Pause")))
    retire = call_policy(name, "retire", "Retire")
    tables = PolicyTableList(status, view, name, site.tables(name))
    listed = list_found(asked, tables.find)
    return {
        "now_s": status.time_s,
        "name": name,
        "view": view,
        "needs": make_cards(needs, status.projections),
        "blocked": make_blocked_cards(status, only=view.loops),
        "switch": None if view.state in ENDED else action,
        "switch_text": describe_consequence(action),
        "ends": view.state not in {NEW, *ENDED},
        "retire": retire,
        "retire_text": describe_consequence(retire),
        "point": row_of(POINTS, status, name),
        "stages": [] if view.stages is None else list(_split_stages(view.stages)),
        "copies": row_of(COPIES, status, name),
        "job_line": job_line,
        "external": row_of(EXTERNAL, status, name),
        "compactions": row_of(COMPACTIONS, status, name),
        "verification": row_of(VERIFICATION, status, name),
        "left": [
            each for section in site.sections for each in section.time_left(section.of(status), view.name)
        ],
        "loads": [load for load in LOADS.of(status) if load.policy == name],
        "listed": listed.with_rows(tables.rows(listed.rows, site.recent(view.source))),
    }


def _split_stages(stages: Stages) -> Iterator[dict[str, Any]]:
    """Yield the stages of an event with their places in a bar of ``BAR`` units."""
    scale, before_s = BAR / (stages.total_s or 1.0), 0.0
    for name, meaning in _STAGES.items():
        seconds: float = getattr(stages, f"{name}_s")
        place = {"x": round(before_s * scale, 1), "width": round(seconds * scale, 1)}
        yield {"name": name, "meaning": meaning, "seconds": seconds, **place}
        before_s += seconds


def find_policy(status: DaemonStatus, name: str) -> ProjectionView:
    """Return the view of a policy; raise NotFound."""
    view = next((each for each in _policies(status) if each.name == _PREFIX + name), None)
    if view is None:
        raise NotFound("this daemon does not follow the policy", hint="Open the list.", policy=name[:200])
    return view


def _policies(status: DaemonStatus) -> list[ProjectionView]:
    return [view for view in status.projections if view.name.startswith(_PREFIX)]


def _rank(view: ProjectionView) -> tuple[bool, int, str]:
    """Return the key that sorts the policies: those with trouble first, then by state and name."""
    state = _ORDER.index(view.state) if view.state in _ORDER else 0
    is_late = view.state == "following" and (view.lag_s or 0.0) > BEHIND_S
    return not (view.quarantined or view.problem or is_late), state, view.name
