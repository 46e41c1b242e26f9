"""Live checks of metastores and topics, for ``tideline config check --live``.

The check reports all problems at once, because every fix requires a restart of the metastore (reference:
event-listeners.md §4). A problem prevents replication; a warning means that an outage may lose data.

Retention must satisfy (reference: hive-replication.md §12): notification log ≤ change manager < timeout of
replayed transactions. A daemon that was down for the whole retention time of the log must still find the
files that the log names, and its open transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, Protocol

from daemon.config.document import Problem, problem_of_error
from daemon.config.model import Config
from daemon.config.replicated_databases import ReplicatedDatabases
from daemon.sources.checks.hive_settings import read_seconds
from daemon.sources.checks.relay_lag import check_lag
from daemon.sources.checks.topic_checks import check_topic
from daemon.sources.checks.transaction_checks import SourceMetastore, check_transactions
from handlers.files.paths import parse_location
from handlers.metastore.calls import HiveVersion
from handlers.metastore.client import Metastore
from state.errors import TidelineError


LISTENER: Final = "DbNotificationListener"
LOG_RETENTION: Final = "metastore.repl.event.db.listener.timetolive"
"""The notification log's time to live while the change manager is on."""
LOG_RETENTION_BEFORE_4: Final = "metastore.event.db.listener.timetolive"
"""The same without the change manager, and before Hive 4, which has only this one."""

_DIRECTORIES: Final = {
    "metastore.warehouse.dir": "it has the files of transactional tables",
    "metastore.warehouse.external.dir": "Hive 4 places plain and external tables there",
    "metastore.repl.cmrootdir": "the change manager moves deleted files there",
}
"""Where the tables of a cluster have their files unless they name a location."""

TIMEOUT_S: Final = 10.0
HIVE_VERSION_MIN: Final = HiveVersion(4, 0)


class CheckedMetastore(SourceMetastore, Protocol):
    """The calls that the checks need; ``handlers.metastore`` implements them."""

    def close(self) -> None:
        """Close the connection."""


def live_problems(
    config: Config, connect: Callable[[Sequence[str]], CheckedMetastore] | None = None
) -> list[Problem]:
    """Check every metastore and topic of the configuration. Returns every failure as a problem instead of
    raising it.
    """
    open_one = connect or (lambda uris: Metastore(uris, connect_timeout_s=TIMEOUT_S, timeout_s=TIMEOUT_S))
    problems: list[Problem] = []
    retention_s = 0.0
    for name, source in config.sources.items():
        place, key = f"source {name}", f"sources.{name}.metastore"
        with closing(open_one(source.metastore)) as metastore:
            problems += _collect(place, key, _source(metastore, place, config, name))
            retention_s = max(retention_s, _read_log_retention(metastore))
        problems += _collect(f"topic {source.topic}", f"sources.{name}.topic", check_topic(config, source))
    for name, target in config.targets.items():
        place, key = f"target {name}", f"targets.{name}.metastore"
        with closing(open_one(target.metastore)) as metastore:
            problems += _collect(place, key, _target(metastore, place, retention_s))
    return problems


def _collect(place: str, key: str, check: Iterator[Problem]) -> list[Problem]:
    """Collect the problems that ``check`` yields; if an error ends it, the error is a problem, too."""
    problems: list[Problem] = []
    try:
        problems.extend(check)
    except TidelineError as error:
        problems.append(problem_of_error(place, key, error))
    return problems


def _source(metastore: CheckedMetastore, place: str, config: Config, name: str) -> Iterator[Problem]:
    yield from _log(metastore, place)
    yield from _writers(metastore, place)
    yield from _retention(metastore, place)
    if any(each.source == name for each in (*config.policies.values(), *config.policy_patterns.values())):
        yield from _directories(metastore, place, config.sources[name].read_roots)
    replicated = ReplicatedDatabases(config, name)
    yield from check_transactions(metastore, place, config.sources[name], replicated.__contains__)
    yield from check_lag(metastore, place, config, config.sources[name])


def _log(metastore: CheckedMetastore, place: str) -> Iterator[Problem]:
    key = "metastore.transactional.event.listeners"
    listeners = metastore.config_value(key)
    if LISTENER not in listeners:
        hint = "add org.apache.hive.hcatalog.listener.DbNotificationListener; it writes the notification log"
        yield Problem(place, key, listeners, f"does not contain {LISTENER}", hint)
    newest = metastore.current_event_id()
    if newest == 0:
        yield Problem(
            place, "notification log", None, "is empty", "normal only for a new cluster", warning=True
        )
    try:
        metastore.next_events(max(0, newest - 1), 1)
    except TidelineError as error:
        hint = (
            "set hive.metastore.event.db.notification.api.auth=false, or make the daemon's user a proxy user"
        )
        yield Problem(place, "notification log", None, f"cannot be read: {error.message}", hint)


def _writers(metastore: CheckedMetastore, place: str) -> Iterator[Problem]:
    key = "hive.metastore.dml.events"
    value = metastore.config_value(key)
    if value.lower() != "true":
        hint = "set it to true for every writer; otherwise commits do not list their files"
        yield Problem(place, key, value or None, "is not enabled in the metastore", hint, warning=True)
    excluded = metastore.config_value("metastore.notification.parameters.exclude.patterns")
    if excluded:
        key = "metastore.notification.parameters.exclude.patterns"
        yield Problem(
            place,
            key,
            excluded,
            "excludes parameters from events",
            "the replica lacks them",
            warning=True,
        )


def _retention(metastore: CheckedMetastore, place: str) -> Iterator[Problem]:
    enabled = metastore.config_value("metastore.repl.cm.enabled").lower() == "true"
    if not enabled:
        reason = "is off: a file deleted before Tideline copies it is lost, and its table is quarantined"
        yield Problem(
            place, "metastore.repl.cm.enabled", "false", reason, "enable the change manager", warning=True
        )
        return
    kept_s = _read_log_retention(metastore)
    files_s = read_seconds(metastore, "metastore.repl.cm.retain")
    if kept_s > files_s > 0:
        reason = f"is shorter than the notification log's {_days(kept_s)}"
        hint = "make it at least as long; otherwise files may be missing after an outage"
        yield Problem(place, "metastore.repl.cm.retain", _days(files_s), reason, hint, warning=True)


def _directories(metastore: CheckedMetastore, place: str, read_roots: Sequence[str]) -> Iterator[Problem]:
    """Yield the directories of the cluster that policies may not read. Their tables would be quarantined.

    A directory without a scheme is on the metastore's own file system, so only its path is compared.
    """
    roots = [parse_location(root) for root in read_roots]
    for key, content in _DIRECTORIES.items():
        value = metastore.config_value(key).strip()
        if not value or not roots:
            continue
        try:
            location = parse_location(value)
        except TidelineError:
            continue
        has_scheme = ":" in value
        if not any(
            root.contains(location if has_scheme else replace(root, path=location.path)) for root in roots
        ):
            hint = f"add it to read_roots if policies replicate such tables; {content}"
            yield Problem(place, key, value, "is not below read_roots", hint, warning=True)


def _read_log_retention(metastore: CheckedMetastore) -> float:
    """Return the notification log's time to live in seconds; 0 if it is unreadable."""
    return read_seconds(metastore, LOG_RETENTION) or read_seconds(metastore, LOG_RETENTION_BEFORE_4)


def _target(metastore: CheckedMetastore, place: str, retention_s: float) -> Iterator[Problem]:
    if metastore.hive_version < HIVE_VERSION_MIN:
        yield Problem(
            place, "Hive version", str(metastore.hive_version), "is older than 4.0", "targets must be Hive 4"
        )
    key = "metastore.repl.txn.timeout"
    timeout_s = read_seconds(metastore, key)
    if 0 < timeout_s <= retention_s:
        reason = f"is not longer than the sources' notification log of {_days(retention_s)}"
        hint = "make it longer; otherwise open transactions may be aborted during an outage"
        yield Problem(place, key, _days(timeout_s), reason, hint, warning=True)
    metastore.current_event_id()


def _days(seconds: float) -> str:
    return f"{seconds / 86400:g} d"
