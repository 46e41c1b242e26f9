"""The first page: states that need an operator, the main figures, and the configured flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from daemon.http.actions import Recorded
from daemon.site.blocked import make_blocked_cards
from daemon.site.consequences import describe_consequence
from daemon.site.drawing import draw
from daemon.site.objects import describe_object, find_readers
from daemon.site.problem_texts import ProblemText, split_problem
from daemon.site.runbooks import runbook_path
from daemon.site.sparklines import draw_sparklines
from daemon.status.history import HistoryPoint
from daemon.status.model import DaemonStatus, OperatorAction, ProjectionView, StatusSection
from state.errors import ConfigError, Fenced, GapDetected, Inconsistent, StateCorrupt, TargetDiverged


CARDS_MAX: Final = 40
"""Cards on the page; it counts further ones."""
_ORDER: Final = ("stuck-loop", "failed-loop", "circuit-breaker", "retention", "quarantined-table")
_TITLES: Final = {
    GapDetected.code: "Lost events",
    Fenced.code: "Taken over by another instance",
    TargetDiverged.code: "Target changed by another client",
    Inconsistent.code: "Source restored from a backup",
    StateCorrupt.code: "Damaged state",
    ConfigError.code: "Wrong configuration",
}
"""A description of a loop's failure, by the code of its error."""
_DELIBERATE: Final = frozenset({"paused-policy", "left-table", "new-policy"})
"""States that an operator has brought about."""


@dataclass(frozen=True, slots=True)
class Card:
    """One state that needs an operator."""

    action: OperatorAction
    runbook: str
    consequence: str
    """The effect of its button; empty if it has none."""
    title: str
    name: str
    """The object in words."""
    path: str
    """The page of the object; empty if it has none."""
    readers: tuple[tuple[str, str], ...]
    """Policies that wait for a relay: name and page."""
    tone: str
    text: ProblemText


def overview_values(
    status: DaemonStatus,
    sections: Sequence[StatusSection[Any]],
    history: Sequence[HistoryPoint],
    actions: Sequence[Recorded] = (),
) -> dict[str, Any]:
    """Return the values of the page."""
    nodes = chain.from_iterable(section.flow(section.of(status)) for section in sections)
    return {
        "status": status,
        "needs": make_cards(status.needs_operator, status.projections),
        "needs_total": len(status.needs_operator),
        "blocked": make_blocked_cards(status),
        "actions": actions,
        "sparklines": draw_sparklines(history, status.time_s),
        "drawing": draw(status, nodes),
        "lag_s": max((view.lag_s for view in status.projections if view.lag_s is not None), default=None),
        "states": Counter(view.state for view in status.projections),
        "quarantined": sum(len(view.quarantined) for view in status.projections),
        "loading": sum(len(view.loading) for view in status.projections),
    }


def make_cards(actions: Sequence[OperatorAction], views: Sequence[ProjectionView]) -> list[Card]:
    """Return the cards of states, the most urgent ones first."""
    rank = {kind: place for place, kind in enumerate(_ORDER)}
    listed = sorted(actions, key=lambda action: rank.get(action.kind, len(rank)))
    return [_make_card(each, views) for each in listed[:CARDS_MAX]]


def _make_card(action: OperatorAction, views: Sequence[ProjectionView]) -> Card:
    """Return the card of a state."""
    consequence = "" if action.action is None else describe_consequence(action.action)
    name, path = describe_object(action.object)
    tone = "warn" if action.kind in _DELIBERATE else "bad"
    text = split_problem(action.reason)
    title = _TITLES.get(text.code) if action.kind == "failed-loop" else None
    title = title or action.kind.replace("-", " ").capitalize()
    readers = tuple(map(describe_object, find_readers({action.object}, views)))
    return Card(action, runbook_path(action.look), consequence, title, name, path, readers, tone, text)
