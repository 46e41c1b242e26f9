"""Loops that wait until something outside works again: one card for each cause, however many loops it stops.

Such a state ends without an action of Tideline, but not before an operator has started the metastore, freed
the disk or renewed the password elsewhere. The overview therefore shows it on top.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from daemon.site.objects import describe_object
from daemon.site.runbooks import runbook_path
from daemon.status.actions import DAEMON
from daemon.status.model import DaemonStatus, FailedLoop
from state.errors import FilesUnavailable, KafkaUnavailable, LoginFailed, MetastoreUnavailable


SHOWN_MAX: Final = 3
"""Loops of one cause that are named, each with its reason."""
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
class BlockedCard:
    """One cause, and the loops that wait for its end."""

    title: str
    since_s: float
    loops: tuple[tuple[str, str, str], ...]
    """At most ``SHOWN_MAX``: name, path of the page, and reason."""
    more: int
    """Further loops."""
    fix: str
    """What to do."""
    runbook: str


def make_blocked_cards(status: DaemonStatus, only: str | None = None) -> list[BlockedCard]:
    """Return the cards of all causes, or of those that stop one loop; the oldest cause first.

    States that need an operator have other cards.
    """
    listed = {action.object for action in status.needs_operator}
    by_code: dict[str, list[FailedLoop]] = defaultdict(list)
    for loop in status.blocked_loops:
        is_routine = status.time_s - loop.since_s < ROUTINE_S
        if loop.name not in listed and not is_routine and only in {None, loop.name}:
            by_code[loop.code].append(loop)
    return sorted((_make_card(code, loops) for code, loops in by_code.items()), key=lambda card: card.since_s)


def _make_card(code: str, loops: list[FailedLoop]) -> BlockedCard:
    title, look = _CAUSES.get(code, _OTHER)
    first = min(loops, key=lambda loop: loop.since_s)
    shown = tuple((*describe_object(loop.name), _reason(loop)) for loop in loops[:SHOWN_MAX])
    return BlockedCard(title, first.since_s, shown, len(loops) - len(shown), first.hint, runbook_path(look))


def _reason(loop: FailedLoop) -> str:
    """Return the problem without its code, which the title says, and its hint, which all loops share."""
    text = loop.problem.removeprefix(f"[{loop.code}] ")
    return text.removesuffix(loop.hint).rstrip(" .") if loop.hint else text
