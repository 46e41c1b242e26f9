"""Mining as configured: the query sources, one pass over them into the key log, and the process that repeats passes.

The daemon runs the process as its child (``tideline keys mine --every``), which reports each pass as one event.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

from daemon.keylog.opening import open_key_log
from daemon.keylog.settings import KEYLOG, MINING
from daemon.keys.progress import MINED
from daemon.process.signals import stop_signals
from state.errors import ConfigError, TidelineError, Transient
from streaming.keylog.retention import delete_old_rows
from streaming.mining.miner import Miner, MiningReport, mine
from streaming.mining.model import CustomFunction, MiningRules, RawTable, Style


if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping

    from daemon.config.model import Config
    from daemon.keylog.settings import MiningConfig, QuerySourceConfig
    from streaming.keylog.log import KeyLog
    from streaming.mining.sources.source import QuerySource


FORGET_TRANSACTIONS: Final = 20
"""What one pass deletes of what is too old: mining is not to wait for it."""


def mining_rules(config: MiningConfig) -> MiningRules:
    """Return what is mined; raise ConfigError where no raw table is configured."""
    tables = tuple(
        RawTable(name, raw.json_column, frozenset(raw.catalogs), raw.location, frozenset(raw.views))
        for name, raw in config.raw_tables.items()
    )
    functions = tuple(
        CustomFunction(name, Style(function.style), function.document_argument)
        for name, function in config.functions.items()
    )
    if not tables:
        raise ConfigError(
            "mining knows no raw table", hint="List the tables of raw JSON events under mining.raw_tables."
        )
    return MiningRules(tables, functions, config.default_database)


def chosen_sources(config: Config, names: Iterable[str]) -> list[QuerySource]:
    """Return the sources of these names, or all; raise ConfigError for an unknown name."""
    known = MINING.of(config).sources
    wanted = list(names) or list(known)
    for name in wanted:
        if name not in known:
            raise ConfigError("there is no such query source", name=name, known=sorted(known) or None)
    if not wanted:
        raise ConfigError(
            "no query source is configured",
            hint="List some under mining.sources, or give queries on standard input: --stdin.",
        )
    return [_source(config, name, known[name]) for name in wanted]


def standard_input(user: str) -> QuerySource:
    """Return the queries given on standard input, as those of ``user`` where they do not say whose they are."""
    from streaming.mining.sources.standard_input import StandardInputSource

    return StandardInputSource("stdin", sys.stdin.buffer, user)


def new_miner(config: Config) -> Miner:
    """Return what reads queries, for all passes of a process: it knows those again that it has read before."""
    return Miner(mining_rules(MINING.of(config)))


def mine_all(
    config: Config,
    miner: Miner,
    log: KeyLog,
    sources: Iterable[QuerySource],
    is_stopped: Callable[[], bool],
) -> list[dict[str, Any]]:
    """Mine new queries of each source into the key log, then delete old requests; return the result of each source.

    A source that fails is reported with its error. The other sources are read nevertheless.
    """
    told = []
    for source in sources:
        if is_stopped():
            break
        told.append(_mined(source, miner, log, is_stopped))
    with suppress(Transient):  # the next pass deletes it
        delete_old_rows(log, KEYLOG.of(config).retention_days, FORGET_TRANSACTIONS)
    return told


def _mined(source: QuerySource, miner: Miner, log: KeyLog, is_stopped: Callable[[], bool]) -> dict[str, Any]:
    began, report, error = time.monotonic(), MiningReport(), None
    try:
        report = mine(source, miner, log, is_stopped=is_stopped)
    except TidelineError as raised:
        error = str(raised)
    return {
        "source": source.name,
        "queries": report.queries,
        "queries_with_keys": report.queries_with_keys,
        "asks": report.key_requests,
        "parsers": {parser.value: count for parser, count in sorted(report.parsers.items())},
        "unresolved": {reason.value: count for reason, count in sorted(report.unresolved.items())},
        "dead": dict(sorted(report.dead.items())),
        "took_s": round(time.monotonic() - began, 3),
        "error": error,
    }


def _source(config: Config, name: str, source: QuerySourceConfig) -> QuerySource:
    if source.kind == "trino":
        return _topic_source(config, name, source)
    from handlers.files.schemes import open_file_systems
    from streaming.mining.sources.directory import Directory
    from streaming.mining.sources.job_history import JobHistorySource
    from streaming.mining.sources.spark_event_log import SparkEventLogSource
    from streaming.mining.sources.sql_files import SqlFilesSource

    tree = Directory.open(str(source.path), open_file_systems(config.files.all_options()))
    match source.kind:
        case "sql-files":
            return SqlFilesSource(name, tree, source.user, source.standing)
        case "job-history":
            return JobHistorySource(name, tree)
        case "spark-events":
            return SparkEventLogSource(name, tree)


def _topic_source(config: Config, name: str, source: QuerySourceConfig) -> QuerySource:
    from daemon.kafka.broker import broker_settings
    from streaming.mining.sources.trino_topic import TrinoTopicSource

    broker = None if config.kafka is None else broker_settings(config.kafka)
    bootstrap = source.bootstrap or (broker.bootstrap if broker else None)
    assert bootstrap is not None, "checked with the configuration"
    client = {} if broker is None or source.bootstrap else {k: str(v) for k, v in broker.client.items()}
    return TrinoTopicSource(name, bootstrap, str(source.topic), client)


def run_miner(load: Callable[[], Config], tell: Callable[[Mapping[str, Any]], None], every_s: float) -> None:
    """Mine all sources every ``every_s`` until SIGTERM or SIGINT, and tell what each pass came to.

    Main thread only. The last event reports why it ended, even if it could not start; raises that error.
    """
    with stop_signals() as stopped:
        try:
            _mine_on(load(), tell, every_s, stopped)
        except TidelineError as error:
            tell({"event": "stopped", "reason": error.code, "message": str(error)[:2000]})
            raise
    tell({"event": "stopped", "reason": "asked to"})


def _mine_on(
    config: Config, tell: Callable[[Mapping[str, Any]], None], every_s: float, stopped: threading.Event
) -> None:
    with closing(open_key_log(config)) as log:
        from daemon.keys.mining import chosen_sources, mine_all, new_miner

        sources, miner = chosen_sources(config, ()), new_miner(config)
        tell({"event": "started"})
        while not stopped.is_set():
            tell({"event": MINED, "sources": mine_all(config, miner, log, sources, stopped.is_set)})
            stopped.wait(every_s)
