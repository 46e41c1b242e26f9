"""Rules between the settings of catalogs and those of sources and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.config.crosscheck import entries, problem


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document
    from daemon.config.problem import Problem


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    yield from _unknown_catalogs(document)


def _unknown_catalogs(document: Document) -> Iterator[Problem]:
    """Catalogs are named by their source; they may write to a target."""
    sources, targets = (
        [name for name, _ in entries(document, section)] for section in ("sources", "targets")
    )
    for name, catalog in entries(document, "catalog"):
        if name not in sources:
            hint = f"there are: {', '.join(sources) or 'none'}"
            yield problem(document, ("catalog", name), name, "is not among the sources", hint)
        yield from _without_event_ids(document, name)
        publish = catalog.get("publish")
        target = publish.get("target") if isinstance(publish, dict) else None
        if isinstance(target, str) and target not in targets:
            hint = f"there are: {', '.join(targets) or 'none'}"
            yield problem(
                document, ("catalog", name, "publish", "target"), target, "is not among the targets", hint
            )


def _without_event_ids(document: Document, name: str) -> Iterator[Problem]:
    """A table is listed as of an event id, which Apiary's formats do not have."""
    source = dict(entries(document, "sources")).get(name, {})
    if str(source.get("format", "")).startswith("apiary"):
        reason = "is a source whose format has no event ids: its timelines cannot be kept"
        yield problem(document, ("catalog", name), name, reason, "let Tideline relay the source")
