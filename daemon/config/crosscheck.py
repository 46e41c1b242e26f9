"""What only two settings together can get wrong.

Works on the plain values and not on the validated ones, and passes over what it cannot read: a wrong type somewhere is
reported by its own field, and must not hide that a policy names a source which does not exist.
"""

from __future__ import annotations

from collections import defaultdict
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from daemon.config.problem import Problem
from daemon.flat.settings import FlatRulesConfig
from daemon.keys.settings import KeylogConfig


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.document import Document, Key


def cross_problems(document: Document) -> list[Problem]:
    """Return every problem between settings."""
    return [
        *_unknown_ends(document),
        *_unknown_catalogs(document),
        *_unknown_raw_tables(document),
        *_forgotten_questions(document),
        *_flat_clusters(document),
        *_shared_places(document),
        *_shared_targets(document),
        *_shared_topics(document),
        *_missing_roots(document),
        *_missing_kafka(document),
        *_order(document, ("supervisor", "backoff_min_s"), ("supervisor", "backoff_max_s")),
        *_order(document, ("supervisor", "backoff_max_s"), ("supervisor", "heartbeat_max_s")),
    ]


def _entries(document: Document, section: str) -> Iterator[tuple[str, dict[str, Any]]]:
    found = document.values.get(section)
    if isinstance(found, dict):
        yield from ((name, entry) for name, entry in found.items() if isinstance(entry, dict))


def _problem(document: Document, key: Key, value: object, reason: str, hint: str = "") -> Problem:
    return Problem(document.place(key), ".".join(key), str(value), reason, hint)


def _unknown_ends(document: Document) -> Iterator[Problem]:
    for name, policy in _entries(document, "policies"):
        for end in ("source", "target"):
            known = [entry for entry, _ in _entries(document, f"{end}s")]
            value = policy.get(end)
            if isinstance(value, str) and value not in known:
                close = get_close_matches(value, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known) or 'none'}"
                yield _problem(document, ("policies", name, end), value, f"is not among the {end}s", hint)


def _unknown_catalogs(document: Document) -> Iterator[Problem]:
    """Catalogs are named by their source; they may write to a target, and facts are made of a source's tables."""
    sources, targets, catalogs = (
        [name for name, _ in _entries(document, section)] for section in ("sources", "targets", "catalog")
    )
    for name, catalog in _entries(document, "catalog"):
        if name not in sources:
            hint = f"there are: {', '.join(sources) or 'none'}"
            yield _problem(document, ("catalog", name), name, "is not among the sources", hint)
        yield from _without_event_ids(document, name)
        publish = catalog.get("publish")
        target = publish.get("target") if isinstance(publish, dict) else None
        if isinstance(target, str) and target not in targets:
            hint = f"there are: {', '.join(targets) or 'none'}"
            yield _problem(
                document, ("catalog", name, "publish", "target"), target, "is not among the targets", hint
            )
    for name, fact in _entries(document, "facts"):
        source = fact.get("source")
        if isinstance(source, str) and source not in catalogs:
            hint = f"add catalog.{source}, which may be empty"
            yield _problem(document, ("facts", name, "source"), source, "has no catalog", hint)


def _without_event_ids(document: Document, name: str) -> Iterator[Problem]:
    """A table is listed as of an event id, which Apiary's formats do not have."""
    source = dict(_entries(document, "sources")).get(name, {})
    if str(source.get("format", "")).startswith("apiary"):
        reason = "is a source whose format has no event ids: its timelines cannot be kept"
        yield _problem(document, ("catalog", name), name, reason, "let Tideline relay the source")


def _unknown_raw_tables(document: Document) -> Iterator[Problem]:
    """Nobody would ever ask for a key of a raw table whose name is misspelt."""
    mining = document.values.get("mining")
    known = (
        list(mining["raw_tables"])
        if isinstance(mining, dict) and isinstance(mining.get("raw_tables"), dict)
        else []
    )
    for name, flat in _entries(document, "flat"):
        raw_table = flat.get("raw_table")
        if known and isinstance(raw_table, str) and raw_table not in known:
            hint = f"there are: {', '.join(map(str, known))}"
            yield _problem(
                document, ("flat", name, "raw_table"), raw_table, "is not among mining.raw_tables", hint
            )


def _flat_clusters(document: Document) -> Iterator[Problem]:
    """A flat table's metastore is that of a cluster, or given by its addresses."""
    known = [name for section in ("targets", "sources") for name, _ in _entries(document, section)]
    for name, flat in _entries(document, "flat"):
        cluster, key = flat.get("cluster"), ("flat", name, "cluster")
        if isinstance(cluster, str) and cluster not in known:
            hint = f"there are: {', '.join(known) or 'none'}"
            yield _problem(document, key, cluster, "is neither a target nor a source", hint)
        if cluster and flat.get("metastore"):
            yield _problem(document, key, cluster, "is given beside metastore", "one of the two is enough")
        if flat.get("view") and not (cluster or flat.get("metastore")):
            reason = "needs a metastore, and the table is in Spark's own catalog"
            yield _problem(
                document, ("flat", name, "view"), flat.get("view"), reason, "give cluster or metastore"
            )


def _shared_places(document: Document) -> Iterator[Problem]:
    """A table, its directory and its checkpoint have one writer."""
    for setting in ("table", "location", "checkpoint"):
        seen: dict[str, str] = {}
        for name, flat in _entries(document, "flat"):
            value = flat.get(setting)
            if not isinstance(value, str):
                continue
            if value in seen:
                reason = f"is that of the flat table {seen[value]!r} already"
                yield _problem(document, ("flat", name, setting), value, reason, "one writer each")
            seen.setdefault(value, name)


def _forgotten_questions(document: Document) -> Iterator[Problem]:
    """Questions that count have to be kept."""
    key = ("keylog", "retention_days")
    kept = _number(document, key)
    if kept is None:
        kept = KeylogConfig().retention_days
    for name, flat in _entries(document, "flat"):
        rules = flat.get("rules")
        asked_days = rules.get("asked_days") if isinstance(rules, dict) else None
        counted = asked_days if isinstance(asked_days, int) else FlatRulesConfig().asked_days
        if counted > kept:
            reason = f"is less than the {counted} days that questions for flat.{name} count"
            yield _problem(document, key, kept, reason, "keep questions at least as long as they count")


def _shared_targets(document: Document) -> Iterator[Problem]:
    seen: dict[tuple[object, object], str] = {}
    for name, policy in _entries(document, "policies"):
        database = policy.get("target_database") or policy.get("database")
        end = (policy.get("target"), database)
        if isinstance(database, str) and end in seen:
            key = "target_database" if policy.get("target_database") else "database"
            reason = f"is written by policy {seen[end]!r} already"
            yield _problem(
                document, ("policies", name, key), database, reason, "one policy per target database"
            )
        elif isinstance(database, str) and isinstance(end[0], str):
            seen[end] = name


def _shared_topics(document: Document) -> Iterator[Problem]:
    users: dict[str, list[str]] = defaultdict(list)
    for name, source in _entries(document, "sources"):
        topic = source.get("topic")
        if isinstance(topic, str):
            users[topic].append(name)
    for topic, names in users.items():
        for name in names[1:]:
            reason = f"is the topic of source {names[0]!r} already"
            yield _problem(
                document,
                ("sources", name, "topic"),
                topic,
                reason,
                "event ids are per source: one topic each",
            )


def _missing_roots(document: Document) -> Iterator[Problem]:
    used = {policy.get("source") for _, policy in _entries(document, "policies")}
    for name, source in _entries(document, "sources"):
        if name in used and not source.get("read_roots"):
            key = ("sources", name, "read_roots")
            reason = "is missing, and policies copy files from there"
            hint = "list the warehouse, the external locations and the change manager's root"
            yield Problem(document.place(key), ".".join(key), None, reason, hint)


def _missing_kafka(document: Document) -> Iterator[Problem]:
    mining = document.values.get("mining")
    queries = mining.get("sources") if isinstance(mining, dict) else None
    entries = queries.values() if isinstance(queries, dict) else ()
    reads_topic = any(
        isinstance(entry, dict) and entry.get("kind") == "trino" and "bootstrap" not in entry
        for entry in entries
    )
    streams = [flat.get("source") for _, flat in _entries(document, "flat")]
    reads_topic = reads_topic or any(
        isinstance(stream, dict) and stream.get("kind") == "kafka" and not stream.get("bootstrap")
        for stream in streams
    )
    if (reads_topic or any(_entries(document, "sources"))) and not document.values.get("kafka"):
        reason = "is missing, and there are sources"
        yield Problem(document.place(()), "kafka.bootstrap", None, reason, "give the broker's address")


def _order(document: Document, low: Key, high: Key) -> Iterator[Problem]:
    lower, upper = (_number(document, key) for key in (low, high))
    if lower is not None and upper is not None and lower > upper:
        yield _problem(document, low, lower, f"is above {'.'.join(high)} = {upper}")


def _number(document: Document, key: Key) -> float | None:
    """Return the given value; None where it is absent or no number (then defaults, which fit, or another problem, apply)."""
    section = document.values.get(key[0])
    value = section.get(key[1]) if isinstance(section, dict) else None
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None
