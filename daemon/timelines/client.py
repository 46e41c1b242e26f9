"""Timelines of a running daemon, asked over HTTP: the same questions as ``daemon.timelines.answers`` answers in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import orjson

from daemon.process.inbox import remote_error
from daemon.status.client import fetch
from daemon.timelines.answers import TABLES_MAX, Answer, CoverQuestion
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Mapping


_PATH: Final = "/api/v1/timelines"


class RemoteTimelines:
    """Answers of the daemon at ``url``; every method raises Transient where it does not answer, and the daemon's own error."""

    def __init__(self, url: str) -> None:
        self._url = url

    def listing(self, *, source: str | None = None, prefix: str = "", limit: int = TABLES_MAX) -> Answer:
        """Return every table whose name starts with ``prefix``."""
        return self._get("", {"source": source, "prefix": prefix, "limit": str(limit)})

    def show(self, table: str, *, source: str | None = None) -> Answer:
        """Return a table's timelines."""
        return self._get(f"/{quote(table)}", {"source": source})

    def latest(self, name: str, *, source: str | None = None, column: str | None = None) -> Answer:
        """Return the latest partitions of a table or fact."""
        return self._get(f"/{quote(name)}/latest", {"source": source, "column": column})

    def cover(self, asked: CoverQuestion) -> Answer:
        """Return which runs cover a range."""
        parameters = {
            "from": asked.start,
            "to": asked.end,
            "source": asked.source,
            "column": asked.column,
            "periods": ",".join(asked.periods) or None,
            "strict": "true" if asked.strict else None,
            "min_count": "true" if asked.min_count else None,
            "where": asked.where,
            "alias": asked.alias or None,
        }
        return self._get(f"/{quote(asked.name)}/cover", parameters)

    def _get(self, path: str, parameters: Mapping[str, str | None]) -> Answer:
        return get_json(self._url, _PATH + path, parameters)


def get_json(url: str, path: str, parameters: Mapping[str, str | None]) -> Answer:
    """Ask the daemon at ``url``; parameters without a value are left out. Raises its own error, Transient, MalformedEvent."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    code, body = fetch(url, f"{path}{'?' if query else ''}{query}")
    found = _json(url, body)
    if code != 200:
        raise remote_error(found)
    return found


def _json(url: str, body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise MalformedEvent(
            "the daemon's answer is no JSON object",
            hint="Is this a Tideline daemon with a catalog?",
            url=url,
        )
    return found
