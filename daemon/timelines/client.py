"""Timelines of a running daemon, asked over HTTP: the same questions as ``daemon.timelines.answers`` answers in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from daemon.status.client import fetch_json
from daemon.timelines.answers import TABLES_MAX, Answer, CoverQuestion


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
        return fetch_json(self._url, _PATH + path, parameters)
