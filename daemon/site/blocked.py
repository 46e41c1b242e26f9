"""Makes one card for each outside cause that stops loops, such as an unreachable metastore, however many
loops it stops.

Such loops need no action in Tideline, but they wait until an operator has started the metastore, freed disk
space or renewed the password. The overview therefore shows these cards first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from daemon.site.objects import describe_object, find_readers
from daemon.site.problem_texts import split_problem
from daemon.site.runbooks import runbook_path
from daemon.status.actions import DAEMON
from daemon.status.model import DaemonStatus, FailedLoop, ProjectionView
from state.errors import FilesUnavailable, KafkaUnavailable, LoginFailed, MetastoreUnavailable


SHOWN_MAX: Final = 3
"""Reasons of one cause, and loops of one reason, that are shown."""
ROUTINE_S: Final = 10.0
"""Shorter states are routine, such as a new leader of a partition."""
_ANSWER: Final = f"{DAEMON}#another-system-does-not-answer"
_CAUSES: Final = {
    MetastoreUnavailable.code: ("A metastore does not answer", _ANSWER),
    KafkaUnavailable.code: ("Kafka does not answer", _ANSWER),
    LoginFailed.code: ("A login is refused", f"{DAEMON}#a-login-is-refused"),
    FilesUnavailable.code: (
        "Files cannot be read or written",
        f"{DAEMON}#files-cannot-be-read-or-written",
    ),
}
_OTHER: Final = ("Another system does not work", _ANSWER)


@dataclass(frozen=True, slots=True)
class BlockedReason:
    """One error message, and the loops that report it."""

    message: str
    details: str
    loops: tuple[tuple[str, str], ...]
    """At most ``SHOWN_MAX`` loops, and policies that wait for one: name, and path of the page."""
    more: int
    """Further loops."""


@dataclass(frozen=True, slots=True)
class BlockedCard:
    """One cause, and the loops that wait until it is gone."""

    title: str
    since_s: float
    reasons: tuple[BlockedReason, ...]
    """At most ``SHOWN_MAX``."""
    more: int
    """Further reasons."""
    fix: str
    """The next step."""
    runbook: str


def make_blocked_cards(status: DaemonStatus, only: Container[str] | None = None) -> list[BlockedCard]:
    """Return the cards of all causes, or of those that stop one of ``only``; the oldest cause first.

    States that need an action in Tideline have other cards.
    """
    listed = {action.object for action in status.needs_operator}
    by_code: dict[str, list[FailedLoop]] = defaultdict(list)
    for loop in status.blocked_loops:
        is_routine = status.time_s - loop.since_s < ROUTINE_S
        if loop.name not in listed and not is_routine and (only is None or loop.name in only):
            by_code[loop.code].append(loop)
    cards = (_make_card(code, loops, status.projections) for code, loops in by_code.items())
    return sorted(cards, key=lambda card: card.since_s)


def _make_card(code: str, loops: list[FailedLoop], views: Sequence[ProjectionView]) -> BlockedCard:
    title, look = _CAUSES.get(code, _OTHER)
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for loop in loops:
        text = split_problem(loop.problem, loop.hint)
        by_reason[text.message, text.details].append(loop.name)
    reasons = tuple(
        _make_reason(*reason, names, views) for reason, names in list(by_reason.items())[:SHOWN_MAX]
    )
    first = min(loops, key=lambda loop: loop.since_s)
    fix = split_problem(first.problem, first.hint).fix
    return BlockedCard(title, first.since_s, reasons, len(by_reason) - len(reasons), fix, runbook_path(look))


def _make_reason(
    message: str, details: str, loops: Sequence[str], views: Sequence[ProjectionView]
) -> BlockedReason:
    """Return a reason with its loops: relays first, then the policies that wait for them."""
    relays = [name for name in loops if name.startswith("relay:")]
    names = list(dict.fromkeys((*relays, *find_readers(relays, views), *loops)))
    return BlockedReason(
        message, details, tuple(map(describe_object, names[:SHOWN_MAX])), len(names[SHOWN_MAX:])
    )
