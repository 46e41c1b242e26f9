"""The partition index of a running daemon, asked over HTTP: the same questions as ``daemon.partitions.answers`` answers in the process."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from daemon.partitions.answers import TABLES_MAX, Answer, FilterQuestion
from daemon.status.client import fetch_json


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_PATH: Final = "/api/v1/partitions"


class RemotePartitions:
    """Answers of the daemon at ``url``; every method raises Transient where it does not answer, and the daemon's own error."""

    def __init__(self, url: str) -> None:
        self._url = url

    def listing(self, *, source: str | None = None, prefix: str = "", limit: int = TABLES_MAX) -> Answer:
        """Return every indexed table whose name starts with ``prefix``."""
        return self._get("", {"source": source, "prefix": prefix, "limit": str(limit)})

    def filter(self, asked: FilterQuestion) -> Answer:
        """Return the partitions that match, or their names."""
        more = {"max": _number(asked.most), "names": "true" if asked.names else None}
        return self._get(f"/{quote(asked.table)}", {**_parameters(asked), **more})

    def count(self, asked: FilterQuestion) -> Answer:
        """Return how many partitions match."""
        return self._get(f"/{quote(asked.table)}/count", _parameters(asked))

    def explain(self, asked: FilterQuestion) -> Answer:
        """Return how a filter is answered."""
        return self._get(f"/{quote(asked.table)}/explain", _parameters(asked))

    def names_ps(
        self, table: str, values: Sequence[str], most: int | None = None, *, source: str | None = None
    ) -> Answer:
        """Return the names of partitions with these values in key order, "" for any."""
        joined = "/".join(quote(value, safe="") for value in values)
        given = {"values": joined, "max": _number(most), "source": source}
        return self._get(f"/{quote(table)}/names_ps", given)

    def by_expr(
        self, table: str, expression: bytes, most: int | None = None, *, source: str | None = None
    ) -> Answer:
        """Return the partitions of an expression as Hive's clients send it."""
        text = urlsafe_b64encode(expression).decode().rstrip("=")
        given = {"expr": text, "max": _number(most), "source": source}
        return self._get(f"/{quote(table)}/by_expr", given)

    def _get(self, path: str, parameters: Mapping[str, str | None]) -> Answer:
        return fetch_json(self._url, _PATH + path, parameters)


def _parameters(asked: FilterQuestion) -> dict[str, str | None]:
    return {"filter": asked.filter, "dialect": asked.dialect, "source": asked.source}


def _number(most: int | None) -> str | None:
    return None if most is None or most < 0 else str(most)
