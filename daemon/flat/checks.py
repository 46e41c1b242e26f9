"""Checks of flat tables: rules between settings, and live checks of this machine, metastores and file
systems.

A driver needs half a minute to find out that its database or its landing directory does not exist; ``tideline
config check --live`` needs one call for each. It also checks whether Spark and its requirements are
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final, Protocol

from daemon.config.crosscheck import entries, missing_kafka, number, problem
from daemon.config.document import Document, Problem, problem_of_error
from daemon.config.model import Config
from daemon.flat.driver_settings import metastores_of
from daemon.flat.settings import FLAT, FlatConfig
from daemon.keylog.settings import KeylogConfig
from handlers.files.paths import parse_location
from handlers.metastore.calls import HiveVersion
from state.columns.rules import FlatRules
from state.errors import NotFound, TidelineError


TIMEOUT_S: Final = 10.0


class LiveMetastore(Protocol):
    """The calls of the live check (``handlers.metastore.client.Metastore``)."""

    @property
    def hive_version(self) -> HiveVersion:
        """The Hive version of the metastore."""

    def get_database(self, name: str) -> object:
        """Return the database; raise NotFound."""

    def close(self) -> None:
        """Close the connection."""


def flat_problems(
    config: Config,
    connect: Callable[[Sequence[str]], LiveMetastore] | None = None,
    require: Callable[[], None] | None = None,
) -> list[Problem]:
    """Check Spark, and the database and the source directory of every table that has a driver.

    Returns every failure as a problem. ``require`` raises if a part of Spark is missing on this machine.
    """
    open_metastore = connect or _connect
    problems: list[Problem] = []
    if any(flat.is_written for flat in FLAT.of(config).values()):
        problems += _installation_problems(require or _require_spark)
    for name, flat in FLAT.of(config).items():
        problems += _source_problems(config, name, flat)
        uris = metastores_of(config, flat)
        if flat.is_written and uris:
            with closing(open_metastore(uris)) as metastore:
                problems += _problems(metastore, name, flat.table.partition(".")[0])
    return problems


def _connect(uris: Sequence[str]) -> LiveMetastore:
    from handlers.metastore.client import Metastore

    return Metastore(uris, connect_timeout_s=TIMEOUT_S, timeout_s=TIMEOUT_S)


def _require_spark() -> None:
    from streaming.driver.installation import require_installation

    require_installation()


def _installation_problems(require: Callable[[], None]) -> Iterator[Problem]:
    try:
        require()
    except TidelineError as error:
        yield problem_of_error("flat tables", "", error)


def _source_problems(config: Config, name: str, flat: FlatConfig) -> Iterator[Problem]:
    """Yield a problem if listing the source's directory fails. Skips file systems that need Spark."""
    from handlers.files.systems.schemes import open_file_systems

    path = None if flat.source is None or flat.source.kind != "directory" else flat.source.path
    if path is None:
        return
    place, key = f"flat table {name}", f"flat.{name}.source.path"
    try:
        location = parse_location(path)
        files = open_file_systems(config.files.all_options(), [location]).of(location)
    except TidelineError:
        return
    try:
        files.list(location)
    except NotFound:
        yield Problem(place, key, path, "unknown directory", "create it before the driver starts")
    except TidelineError as error:
        yield problem_of_error(place, key, error, path)


def _problems(metastore: LiveMetastore, name: str, database: str) -> Iterator[Problem]:
    place, key = f"flat table {name}", f"flat.{name}.table"
    try:
        if metastore.hive_version < HiveVersion(4, 0):
            reason = "must be in a metastore of Hive 4 or later"
            yield Problem(place, key, str(metastore.hive_version), reason, "use another metastore")
        metastore.get_database(database)
    except NotFound:
        yield Problem(place, key, database, "unknown database", "create it first")
    except TidelineError as error:
        yield problem_of_error(place, key, error)


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every problem between settings."""
    yield from _unknown_raw_tables(document)
    yield from _unknown_clusters(document)
    yield from _shared_writers(document)
    yield from _short_retention(document)
    streams = [flat.get("source") for _, flat in entries(document, "flat")]
    if any(
        isinstance(stream, dict) and stream.get("kind") == "kafka" and not stream.get("bootstrap")
        for stream in streams
    ):
        yield from missing_kafka(document)


def _unknown_raw_tables(document: Document) -> Iterator[Problem]:
    """Yield unknown raw tables: the miner would skip one, so none of its keys would become a column."""
    mining = document.values.get("mining")
    raw_tables = (
        list(mining["raw_tables"])
        if isinstance(mining, dict) and isinstance(mining.get("raw_tables"), dict)
        else []
    )
    for name, flat in entries(document, "flat"):
        raw_table = flat.get("raw_table")
        if raw_tables and isinstance(raw_table, str) and raw_table not in raw_tables:
            hint = f"known raw tables: {', '.join(map(str, raw_tables))}"
            reason = "must be one of mining.raw_tables"
            yield problem(document, ("flat", name, "raw_table"), raw_table, reason, hint)


def _unknown_clusters(document: Document) -> Iterator[Problem]:
    """Yield unknown clusters: a flat table names the metastore of a configured cluster, or its addresses."""
    clusters = [name for section in ("targets", "sources") for name, _ in entries(document, section)]
    for name, flat in entries(document, "flat"):
        cluster, key = flat.get("cluster"), ("flat", name, "cluster")
        if isinstance(cluster, str) and cluster not in clusters:
            hint = f"known clusters: {', '.join(clusters) or 'none'}"
            yield problem(document, key, cluster, "must be a target or a source", hint)
        if cluster and flat.get("metastore"):
            yield problem(document, key, cluster, "must not be set together with metastore", "remove one")
        if flat.get("view") and not (cluster or flat.get("metastore")):
            reason = "must not be set for a table in Spark's own catalog"
            hint = "set cluster or metastore"
            yield problem(document, ("flat", name, "view"), flat.get("view"), reason, hint)


def _shared_writers(document: Document) -> Iterator[Problem]:
    """Yield tables, directories and checkpoints with more than one writer."""
    for setting in ("table", "location", "checkpoint"):
        owners: dict[str, str] = {}
        for name, flat in entries(document, "flat"):
            value = flat.get(setting)
            if not isinstance(value, str):
                continue
            if value in owners:
                reason = f"is already the {setting} of flat table {owners[value]!r}"
                yield problem(
                    document, ("flat", name, setting), value, reason, f"give each its own {setting}"
                )
            owners.setdefault(value, name)


def _short_retention(document: Document) -> Iterator[Problem]:
    """Yield tables that count requests for longer than the key log keeps them."""
    key = ("keylog", "retention_days")
    retention_days = number(document, key)
    if retention_days is None:
        retention_days = KeylogConfig().retention_days
    for name, flat in entries(document, "flat"):
        rules = flat.get("rules")
        configured = rules.get("requested_days") if isinstance(rules, dict) else None
        counted = configured if isinstance(configured, int) else FlatRules().requested_days
        if counted > retention_days:
            reason = f"must be at least flat.{name}.rules.requested_days = {counted}"
            yield problem(document, key, retention_days, reason, "keep requests for at least this time")
