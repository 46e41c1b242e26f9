"""Selects the part of the status to show if there are many policies: counts by state, and policies that
deviate.

With up to ``SHOWN_MAX`` projections, the text has all of them. With more, it has a projection only if it
deviates: it does not follow, is behind, or has quarantined tables, loads or a problem. Sections omit the rows
of the other projections. The text has at most ``DEVIATING_MAX`` deviating projections, failed ones first, and
the next ``QUEUED_MAX`` in the queue of bootstraps. The JSON and ``tideline status --all`` have everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any, Final

from daemon.status.model import NEW, DaemonStatus, ProjectionView, StatusSection
from daemon.terminal.layout import number_text
from state.errors import NotFound


SHOWN_MAX: Final = 20
DEVIATING_MAX: Final = 40
QUEUED_MAX: Final = 5
BEHIND_S: Final = 60.0
"""A projection with a larger lag is behind."""
_ORDER: Final = (
    *("failed", "backing-off", "stopped", NEW, "paused", "promoted", "retired"),
    *("following", "starting"),
)


def summarise(status: DaemonStatus, sections: Sequence[StatusSection[Any]]) -> tuple[DaemonStatus, str]:
    """Return the part of the status to show, and a line about the omitted rest."""
    views = status.projections
    if len(views) <= SHOWN_MAX:
        return status, ""
    deviating = sorted(filter(_deviates, views), key=_rank)
    shown = [view for view in deviating if (view.place or 0) <= QUEUED_MAX][:DEVIATING_MAX]
    hidden = {view.name for view in views} - {view.name for view in shown}
    part = replace(
        status,
        projections=tuple(shown),
        sections={
            section.key: section.without(section.of(status), hidden)
            for section in sections
            if section.key in status.sections
        },
        needs_operator=status.needs_operator[:DEVIATING_MAX],
    )
    return part, _describe(status, len(deviating), len(shown))


def narrow(
    status: DaemonStatus, sections: Sequence[StatusSection[Any]], policy: str | None, table: str | None
) -> DaemonStatus:
    """Return the part of the status about a policy or another projection, and about a table if one is given.

    Raises NotFound for an unknown policy, and for a table that the status does not mention.
    """
    name = None if policy is None else policy.lower()
    views = [view for view in status.projections if name in {None, view.name, view.name.partition(":")[2]}]
    if name is not None and not views:
        names = ", ".join(view.name.partition(":")[2] for view in status.projections[:DEVIATING_MAX])
        raise NotFound("the daemon does not follow the policy", policy=name, hint=f"It follows: {names}.")
    if table is not None:
        views = [_of_table(view, table.lower()) for view in views]
    shown = {view.name for view in views}
    hidden = {view.name for view in status.projections} - shown
    if not hidden and table is None:
        return status
    sources = {view.source for view in views}
    loops = {loop for view in views for loop in view.loops}
    return replace(
        status,
        projections=tuple(views),
        sources=tuple(each for each in status.sources if each.name in sources),
        stuck=tuple(each for each in status.stuck if each in shown),
        sections={
            section.key: section.without(section.of(status), hidden)
            for section in sections
            if section.key in status.sections and table is None
        },
        needs_operator=tuple(each for each in status.needs_operator if _concerns(each.object, loops, table)),
    )


def _of_table(view: ProjectionView, table: str) -> ProjectionView:
    return replace(
        view,
        quarantined=tuple(each for each in view.quarantined if each == table),
        failures=tuple(each for each in view.failures if each.table == table),
        loading=tuple(each for each in view.loading if each.split(",")[0].split()[0] == table),
        failing=tuple(each for each in view.failing if each.table == table),
    )


def _concerns(name: str, loops: Container[str], table: str | None) -> bool:
    """Whether a state belongs to one of these loops and, if it is a table's state, to this table."""
    loop, _, of_table = name.partition(" ")
    return loop in loops and (table is None or of_table in {"", table.lower()})


def _deviates(view: ProjectionView) -> bool:
    return bool(
        view.state != "following"
        or view.quarantined
        or view.problem
        or view.loading
        or view.failing
        or (view.lag_s or 0.0) > BEHIND_S
    )


def _rank(view: ProjectionView) -> tuple[int, int, float, str]:
    """Return the key that sorts deviating projections: state, place in the queue of bootstraps, lag."""
    state = _ORDER.index(view.state) if view.state in _ORDER else -1
    return state, view.place or 0, -(view.lag_s or 0.0), view.name


def _describe(status: DaemonStatus, deviating: int, shown: int) -> str:
    views = status.projections
    counts = Counter(view.state for view in views)
    states = ", ".join(f"{number_text(count)} {state}" for state, count in counts.most_common())
    lines = [f"{number_text(len(views))} projections: {states}"]
    late = max(views, key=lambda view: view.lag_s or 0.0)
    if (late.lag_s or 0.0) > BEHIND_S:
        behind = sum((view.lag_s or 0.0) > BEHIND_S for view in views)
        verb = "is" if behind == 1 else "are"
        lines.append(f"{number_text(behind)} {verb} behind by more than a minute, {late.name} the most")
    if queued := sum(view.place is not None for view in views):
        lines.append(
            "1 waits for its bootstrap" if queued == 1 else f"{number_text(queued)} wait for their bootstrap"
        )
    omitted = len(status.needs_operator) - DEVIATING_MAX
    if omitted > 0:
        lines.append(f"{number_text(omitted)} further states need an operator and are not listed")
    what = (
        "none deviates" if not deviating else f"{number_text(shown)} of {number_text(deviating)} that deviate"
    )
    lines.append(f"shown: {what}; 'tideline status --all' and the JSON have all")
    return "\n".join(lines)
