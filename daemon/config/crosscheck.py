"""Rules between two settings of the shared sections, and helpers for the rules of capabilities.

They read the plain values instead of the validated ones, so that a wrong type in one field does not hide that
a policy names an unknown source. They ignore unreadable values, which the fields report.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from daemon.config.document import Document, Key, Problem
from daemon.config.fields import as_list
from daemon.config.kafka_client import KERBEROS_HINT, has_kerberos, needs_kerberos
from daemon.config.quantities import read_quantity, unit_of
from daemon.config.settings.process import is_loopback
from handlers.metastore.addresses import DEFAULT_PORT


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every contradiction between shared settings."""
    yield from _unknown_ends(document)
    yield from _shared_targets(document)
    yield from _shared_bases(document)
    yield from _missing_bases(document)
    yield from _shared_topics(document)
    yield from _missing_roots(document)
    yield from _different_logins(document)
    yield from _unencrypted_passwords(document)
    yield from _open_http(document)
    yield from _missing_kerberos(document)
    yield from _open_executors(document)
    if any(entries(document, "sources")):
        yield from missing_kafka(document)
    yield from _order(document, ("supervisor", "backoff_min_s"), ("supervisor", "backoff_max_s"))
    yield from _order(document, ("supervisor", "backoff_max_s"), ("supervisor", "heartbeat_max_s"))


def entries(document: Document, section: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and settings of every entry of a section with named entries."""
    content = document.values.get(section)
    if isinstance(content, dict):
        yield from ((name, entry) for name, entry in content.items() if isinstance(entry, dict))


POLICY_SECTIONS: Final = ("policies", "policy_patterns")


def policy_entries(document: Document) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Yield section, name and settings of every policy and of every pattern of policies."""
    for section in POLICY_SECTIONS:
        for name, entry in entries(document, section):
            yield (section, name), entry


def problem(document: Document, key: Key, value: object, reason: str, hint: str = "") -> Problem:
    """Return a problem of ``key``, with the line of the key."""
    return Problem(document.place(key), ".".join(key), str(value), reason, hint)


def number(document: Document, key: Key) -> float | None:
    """Return the number at a key; None if it is missing or not a number (the field reports that)."""
    section = document.values.get(key[0])
    value = section.get(key[1]) if isinstance(section, dict) else None
    value = read_quantity(unit_of(key[1]), value)
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


def missing_kafka(document: Document) -> Iterator[Problem]:
    """Yield a problem if no broker is configured."""
    if not document.values.get("kafka"):
        reason = "must be set if there is a source or another topic to read"
        yield Problem(
            document.place(()), "kafka.bootstrap", None, reason, "set it to the address of the broker"
        )


def _unknown_ends(document: Document) -> Iterator[Problem]:
    for place, policy in policy_entries(document):
        for end in ("source", "target"):
            names = [entry for entry, _ in entries(document, f"{end}s")]
            value = policy.get(end)
            if isinstance(value, str) and value not in names:
                close = get_close_matches(value, names, n=1)
                hint = (
                    f"did you mean {close[0]!r}?" if close else f"known {end}s: {', '.join(names) or 'none'}"
                )
                yield problem(document, (*place, end), value, f"unknown {end}", hint)


def _shared_targets(document: Document) -> Iterator[Problem]:
    policies_by_end: dict[tuple[str, str], str] = {}
    for name, policy in entries(document, "policies"):
        target, database = policy.get("target"), policy.get("target_database") or policy.get("database")
        if not isinstance(target, str) or not isinstance(database, str):
            continue
        end = (target, database)
        if end in policies_by_end:
            key = "target_database" if policy.get("target_database") else "database"
            reason = f"is already the target of policy {policies_by_end[end]!r}"
            yield problem(
                document,
                ("policies", name, key),
                database,
                reason,
                "give each policy its own target database",
            )
        else:
            policies_by_end[end] = name


def _shared_bases(document: Document) -> Iterator[Problem]:
    """Yield policies of different sources if the ``external_base`` of one contains the other's."""
    bases: list[tuple[str, str, object]] = []
    for place, policy in policy_entries(document):
        base, source = policy.get("external_base"), policy.get("source")
        if not isinstance(base, str):
            continue
        for other, earlier, other_source in bases:
            if source != other_source and _are_nested(base, earlier):
                reason = f"overlaps the base of policy {other!r}, which has another source"
                yield problem(
                    document,
                    (*place, "external_base"),
                    base,
                    reason,
                    "give the policies of each source their own base, because equal paths of two "
                    "sources would collide",
                )
                break
        bases.append((place[1], base, source))


def _are_nested(one: str, other: str) -> bool:
    first, second = (re.sub("/+", "/", each + "/") for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _missing_bases(document: Document) -> Iterator[Problem]:
    for place, policy in policy_entries(document):
        if policy.get("external") and not policy.get("external_base"):
            reason = "must be set if the files of external tables are copied"
            hint = "set a URI on the target, with one base for each source"
            key = ".".join((*place, "external_base"))
            yield Problem(document.place((*place, "external")), key, None, reason, hint)


def _missing_roots(document: Document) -> Iterator[Problem]:
    used = [policy.get("source") for _, policy in policy_entries(document)]
    for name, source in entries(document, "sources"):
        if name in used and not source.get("read_roots"):
            key = ("sources", name, "read_roots")
            reason = "must be set, because policies copy files from this source"
            hint = "list the warehouse, the external locations and the change manager's root"
            yield Problem(document.place(key), ".".join(key), None, reason, hint)


def _shared_topics(document: Document) -> Iterator[Problem]:
    users: dict[str, list[str]] = defaultdict(list)
    for name, source in entries(document, "sources"):
        topic = source.get("topic")
        if isinstance(topic, str):
            users[topic].append(name)
    for topic, names in users.items():
        for name in names[1:]:
            reason = f"is already the topic of source {names[0]!r}"
            yield problem(
                document,
                ("sources", name, "topic"),
                topic,
                reason,
                "give each source its own topic, because event ids are per source",
            )


def _different_logins(document: Document) -> Iterator[Problem]:
    """Yield clusters that log in to a server differently from an earlier cluster.

    A process has one login for each server.
    """
    logins: dict[str, tuple[Key, object]] = {}
    for place, cluster in _clusters(document):
        login = cluster.get("auth")
        for address in _addresses(cluster):
            server = _server(address)
            other, other_login = logins.setdefault(server, (place, login))
            if login != other_login:
                key = (*place, "auth")
                reason = f"does not use the same login at {server} as {'.'.join(other)}"
                yield Problem(
                    document.place(key), ".".join(key), None, reason, "give both clusters the same 'auth'"
                )
                break


def _unencrypted_passwords(document: Document) -> Iterator[Problem]:
    """Yield a warning for each cluster that gets a password over a connection without TLS."""
    for place, cluster in _clusters(document):
        auth = cluster.get("auth")
        if not isinstance(auth, dict) or auth.get("mechanism") != "plain":
            continue
        plain = [address for address in _addresses(cluster) if not address.startswith("thrift+tls://")]
        if plain:
            key = (*place, "auth", "mechanism")
            reason = f"sends the password unencrypted to {plain[0]}"
            hint = "use thrift+tls:// if the metastore supports TLS"
            yield replace(problem(document, key, "plain", reason, hint), warning=True)


def _open_http(document: Document) -> Iterator[Problem]:
    """Yield a warning if tokens pass through the network unencrypted."""
    http = document.values.get("http")
    if not isinstance(http, dict) or not http.get("tokens") or http.get("tls"):
        return
    host = str(http.get("host") or "")
    if host and not is_loopback(host):
        reason = "sends tokens unencrypted through the network"
        hint = "set http.tls, unless a proxy or the network encrypts"
        yield replace(problem(document, ("http", "host"), host, reason, hint), warning=True)


def _missing_kerberos(document: Document) -> Iterator[Problem]:
    """Yield a warning if the settings of Kafka need Kerberos and the installed client lacks it."""
    kafka = document.values.get("kafka")
    options = kafka.get("options") if isinstance(kafka, dict) else None
    if isinstance(options, dict) and needs_kerberos(options) and not has_kerberos():
        reason = "needs Kerberos (SASL GSSAPI), but the installed Kafka client was built without it"
        place = ("kafka", "options")
        yield replace(problem(document, place, "GSSAPI", reason, KERBEROS_HINT), warning=True)


def _open_executors(document: Document) -> Iterator[Problem]:
    """Yield a warning for each driver of a standalone cluster whose executors need no secret.

    Spark makes a secret for each driver on YARN and Kubernetes. A standalone cluster has one for all
    applications, in the settings of its own processes, so Tideline cannot set it. No warning if the user has
    set ``spark.authenticate: false``.
    """
    sections: list[tuple[Key, Any]] = [
        (("flat", name, "spark"), entry.get("spark")) for name, entry in entries(document, "flat")
    ]
    for policy, entry in policy_entries(document):
        jobs = entry.get("copy_jobs")
        if isinstance(jobs, dict):
            sections.append(((*policy, "copy_jobs", "spark"), jobs.get("spark")))
    for place, spark in sections:
        master, conf = (spark.get("master"), spark.get("conf")) if isinstance(spark, dict) else (None, None)
        if not str(master).startswith("spark://") or "spark.authenticate" in (conf or {}):
            continue
        reason = "every host that reaches the driver's ports can pose as an executor"
        hint = "set spark.authenticate in spark.conf ('Executors on a cluster' in docs/FLAT.md)"
        yield replace(problem(document, (*place, "master"), master, reason, hint), warning=True)


def _clusters(document: Document) -> Iterator[tuple[Key, dict[str, Any]]]:
    for kind in ("sources", "targets"):
        for name, entry in entries(document, kind):
            yield (kind, name), entry


def _server(address: str) -> str:
    """Return host and port of an address."""
    server = address.rpartition("://")[2].lower()
    return server if re.search(r":\d+$", server) else f"{server}:{DEFAULT_PORT}"


def _addresses(cluster: dict[str, Any]) -> list[str]:
    addresses = as_list(cluster.get("metastore"))
    return [str(address) for address in addresses] if isinstance(addresses, list) else []


def _order(document: Document, low: Key, high: Key) -> Iterator[Problem]:
    lower, upper = (number(document, key) for key in (low, high))
    if lower is not None and upper is not None and lower > upper:
        yield problem(document, low, lower, f"must not be above {'.'.join(high)} = {upper}")
