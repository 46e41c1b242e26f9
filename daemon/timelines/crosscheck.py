"""Rules between facts and catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.config.crosscheck import entries, problem


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document
    from daemon.config.problem import Problem


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    catalogs = [name for name, _ in entries(document, "catalog")]
    for name, fact in entries(document, "facts"):
        source = fact.get("source")
        if isinstance(source, str) and source not in catalogs:
            hint = f"add catalog.{source}, which may be empty"
            yield problem(document, ("facts", name, "source"), source, "has no catalog", hint)
