"""Rules between the settings of flat tables, and between them and other sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.config.crosscheck import entries, missing_kafka, number, problem
from daemon.keylog.settings import KeylogConfig
from state.columns.rules import FlatRules


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document
    from daemon.config.problem import Problem


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    yield from _unknown_raw_tables(document)
    yield from _flat_clusters(document)
    yield from _shared_places(document)
    yield from _forgotten_questions(document)
    streams = [flat.get("source") for _, flat in entries(document, "flat")]
    if any(
        isinstance(stream, dict) and stream.get("kind") == "kafka" and not stream.get("bootstrap")
        for stream in streams
    ):
        yield from missing_kafka(document)


def _unknown_raw_tables(document: Document) -> Iterator[Problem]:
    """Nobody would ever ask for a key of a raw table whose name is misspelt."""
    mining = document.values.get("mining")
    known = (
        list(mining["raw_tables"])
        if isinstance(mining, dict) and isinstance(mining.get("raw_tables"), dict)
        else []
    )
    for name, flat in entries(document, "flat"):
        raw_table = flat.get("raw_table")
        if known and isinstance(raw_table, str) and raw_table not in known:
            hint = f"there are: {', '.join(map(str, known))}"
            yield problem(
                document, ("flat", name, "raw_table"), raw_table, "is not among mining.raw_tables", hint
            )


def _flat_clusters(document: Document) -> Iterator[Problem]:
    """A flat table's metastore is that of a cluster, or given by its addresses."""
    known = [name for section in ("targets", "sources") for name, _ in entries(document, section)]
    for name, flat in entries(document, "flat"):
        cluster, key = flat.get("cluster"), ("flat", name, "cluster")
        if isinstance(cluster, str) and cluster not in known:
            hint = f"there are: {', '.join(known) or 'none'}"
            yield problem(document, key, cluster, "is neither a target nor a source", hint)
        if cluster and flat.get("metastore"):
            yield problem(document, key, cluster, "is given beside metastore", "one of the two is enough")
        if flat.get("view") and not (cluster or flat.get("metastore")):
            reason = "needs a metastore, and the table is in Spark's own catalog"
            yield problem(
                document, ("flat", name, "view"), flat.get("view"), reason, "give cluster or metastore"
            )


def _shared_places(document: Document) -> Iterator[Problem]:
    """A table, its directory and its checkpoint have one writer."""
    for setting in ("table", "location", "checkpoint"):
        seen: dict[str, str] = {}
        for name, flat in entries(document, "flat"):
            value = flat.get(setting)
            if not isinstance(value, str):
                continue
            if value in seen:
                reason = f"is that of the flat table {seen[value]!r} already"
                yield problem(document, ("flat", name, setting), value, reason, "one writer each")
            seen.setdefault(value, name)


def _forgotten_questions(document: Document) -> Iterator[Problem]:
    """Questions that count have to be kept."""
    key = ("keylog", "retention_days")
    kept = number(document, key)
    if kept is None:
        kept = KeylogConfig().retention_days
    for name, flat in entries(document, "flat"):
        rules = flat.get("rules")
        asked_days = rules.get("asked_days") if isinstance(rules, dict) else None
        counted = asked_days if isinstance(asked_days, int) else FlatRules().asked_days
        if counted > kept:
            reason = f"is less than the {counted} days that questions for flat.{name} count"
            yield problem(document, key, kept, reason, "keep questions at least as long as they count")
