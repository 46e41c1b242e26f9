"""What the answers of all branches of a catalog share: which source answers, the state of a table, and how current an answer is.

Timelines and partitions are kept by source, but a query need not name the source. Where several sources have the table, none is
chosen: their answers would differ, and the user could not tell which one it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from state.errors import BadInput, NotFound


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class OfSource(Protocol):
    """What is kept of one source."""

    @property
    def source(self) -> str:
        """The source's name."""


View = TypeVar("View", bound=OfSource)
Known = TypeVar("Known")


def views_of(
    views: Sequence[View], source: str | None, *, missing: str, nothing: str, hint: str
) -> list[View]:
    """Return the named source's view, or all; raise NotFound: ``missing`` for a source without one, ``nothing`` without any."""
    chosen = [view for view in views if source in {None, view.source}]
    if not chosen:
        raise NotFound(missing if source else nothing, hint=hint, source=source)
    return chosen


def only_one(found: Sequence[tuple[View, Known]], **asked: str) -> tuple[View, Known]:
    """Return the only source's, of one or more; raise BadInput about what is ``asked`` where several have it."""
    if len(found) > 1:
        sources = [view.source for view, _ in found]
        raise BadInput("several sources have it", **asked, sources=sources, hint="Name the source.")
    return found[0]


def state_of(table: str, confined: Mapping[str, str], waiting: Mapping[str, str]) -> str:
    """Tell whether answers about a table can be believed: ``following``, ``loading`` or ``quarantined``."""
    if table in confined:
        return "quarantined"
    return "loading" if table in waiting else "following"


def as_of(answer: Mapping[str, Any]) -> str:
    """Return which event an answer reflects, and how far the source is."""
    newest = answer.get("current_event_id")
    return f"as of event {answer['event_id']}, source at {'?' if newest is None else newest}"
