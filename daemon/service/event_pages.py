"""The last events of the topics, from memory, and the dead letters, from their topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from annotated_types import Interval

from daemon.dead_letters.routes import list_letters
from daemon.http.parameters import Parameters, read_parameters
from daemon.http.transport.answering import Lane
from daemon.site.consequences import describe_consequence
from daemon.site.pages import Asked, PageRoute, require_operator
from daemon.site.recent_events import find_recent
from state.bounds import NUMBER_MAX
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.config.model import Config
    from daemon.sources.shared_readers import SharedReaders


EVENTS: Final = "/events"
LETTERS: Final = f"{EVENTS}/dead-letters"


@dataclass(frozen=True)
class EventFilter(Parameters):
    """Parameters of the page of events."""

    source: str = ""
    table: str = ""
    txn: Annotated[int, Interval(ge=0, le=NUMBER_MAX)] | None = None
    """A transaction."""


def event_pages(config: Config, readers: SharedReaders) -> Sequence[PageRoute]:
    """Return the routes of the pages; none without a source."""
    names = tuple(config.sources)

    def events(asked: Asked) -> dict[str, Any]:
        given = read_parameters(EventFilter, asked.parameters)
        busy = (name for name in names if readers.of(name).recent())
        source, table = given.source or next(busy, names[0]), given.table.strip().lower()
        if source not in names:
            raise NotFound("there is no such source", source=source[:100], hint="Choose one of the list.")
        recent = find_recent(readers.of(source).recent(), table=table, txn_id=given.txn)
        txn = "" if given.txn is None else given.txn
        return {"names": names, "source": source, "table": table, "txn": txn, "recent": recent}

    def letters(asked: Asked) -> dict[str, Any]:
        require_operator(asked, "the list of dead letters")
        return {"letters": list_letters(config), "describe": describe_consequence}

    if not names:
        return ()
    return (
        PageRoute(EVENTS, "events.html", events, entry="Events", parameters=EventFilter, lane=Lane.MEMORY),
        PageRoute(LETTERS, "dead_letters.html", letters, lane=Lane.STORE),
    )
