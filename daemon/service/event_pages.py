"""The last events of the topics, from memory, and the dead letters, from their topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from daemon.dead_letters.routes import list_letters
from daemon.http.transport.answering import Lane
from daemon.site.consequences import describe_consequence
from daemon.site.pages import Asked, PageRoute, require_operator
from daemon.site.recent_events import find_recent
from state.bounds import parse_number
from state.errors import BadInput, NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.config.model import Config
    from daemon.sources.shared_readers import SharedReaders


EVENTS: Final = "/events"
LETTERS: Final = f"{EVENTS}/dead-letters"
PARAMETERS: Final = ("source", "table", "txn")


def event_pages(config: Config, readers: SharedReaders) -> Sequence[PageRoute]:
    """Return the routes of the pages; none without a source."""
    names = tuple(config.sources)

    def events(asked: Asked) -> dict[str, Any]:
        given = {name: value.strip() for name, value in asked.parameters.items()}
        source, txn = given.get("source") or names[0], given.get("txn", "")
        if source not in names:
            raise NotFound("there is no such source", source=source[:100], hint="Choose one of the list.")
        txn_id = parse_number(txn)
        if txn and txn_id is None:
            raise BadInput("must be the number of a transaction", parameter="txn", value=txn[:100])
        table = given.get("table", "").lower()
        recent = find_recent(readers.of(source).recent(), table=table, txn_id=txn_id)
        return {"names": names, "source": source, "table": table, "txn": txn, "recent": recent}

    def letters(asked: Asked) -> dict[str, Any]:
        require_operator(asked, "the list of dead letters")
        return {"letters": list_letters(config), "describe": describe_consequence}

    if not names:
        return ()
    return (
        PageRoute(EVENTS, "events.html", events, entry="Events", parameters=PARAMETERS, lane=Lane.MEMORY),
        PageRoute(LETTERS, "dead_letters.html", letters, lane=Lane.STORE),
    )
