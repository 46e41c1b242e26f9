"""Rules between the settings of mining and those of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.config.crosscheck import missing_kafka


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document
    from daemon.config.problem import Problem


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    mining = document.values.get("mining")
    queries = mining.get("sources") if isinstance(mining, dict) else None
    sources = queries.values() if isinstance(queries, dict) else ()
    if any(
        isinstance(source, dict) and source.get("kind") == "trino" and "bootstrap" not in source
        for source in sources
    ):
        yield from missing_kafka(document)
