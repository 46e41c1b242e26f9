"""Mines the configured query sources into the key log, once or repeatedly as a process.

The daemon runs the process as its child (``tideline keys mine --every``). The child reports each pass as one
event.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from daemon.keylog.opening import open_key_log
from daemon.keylog.settings import KEYLOG, MINING
from daemon.keys.status import MINED
from daemon.process.signals import stop_signals
from state.errors import ConfigError, TidelineError, Transient
from streaming.keylog.retention import delete_old_rows
from streaming.mining.miner import Miner, MiningReport, mine
from streaming.mining.text_worker import TextWorker


if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from daemon.config.model import Config
    from daemon.keylog.settings import QuerySourceConfig
    from streaming.keylog.log import KeyLog
    from streaming.mining.sources.source import QuerySource


DELETE_TRANSACTIONS_MAX: Final = 20
"""Transactions of one pass that delete old requests; a limit, so that mining does not wait for them."""


def open_sources(config: Config, names: Iterable[str]) -> list[QuerySource]:
    """Return the sources with these names, or all of them; raise ConfigError for an unknown name."""
    configured = MINING.of(config).sources
    selection = list(names) or list(configured)
    for name in selection:
        if name not in configured:
            raise ConfigError("unknown query source", name=name, known=sorted(configured) or None)
    if not selection:
        raise ConfigError(
            "no query source is configured",
            hint="List sources under mining.sources, or give queries on standard input: --stdin.",
        )
    return [_open_source(config, name, configured[name]) for name in selection]


def open_standard_input(user: str) -> QuerySource:
    """Return a source of queries on standard input. A query that names no user counts for ``user``."""
    from streaming.mining.sources.standard_input import StandardInputSource

    return StandardInputSource("stdin", sys.stdin.buffer, user)


@contextmanager
def open_miner(config: Config) -> Iterator[Miner]:
    """Yield the miner for all passes of a process. It recognizes queries that it has read before.

    A child process reads the texts, because any user's query may exhaust memory or time.
    """
    rules = MINING.of(config).rules()
    with closing(TextWorker(rules)) as worker:
        yield Miner(rules, worker)


def mine_all(
    config: Config,
    miner: Miner,
    log: KeyLog,
    sources: Iterable[QuerySource],
    is_stopped: Callable[[], bool],
) -> list[dict[str, Any]]:
    """Mine the new queries of each source into the key log, then delete old requests.

    Returns a result for each source. If a source fails, its result is the error, and the other sources are
    still read.
    """
    passes = []
    for source in sources:
        if is_stopped():
            break
        passes.append(_mine_source(source, miner, log, is_stopped))
    with suppress(Transient):  # the next pass deletes them
        delete_old_rows(log, KEYLOG.of(config).retention_days, DELETE_TRANSACTIONS_MAX)
    return passes


def _mine_source(
    source: QuerySource, miner: Miner, log: KeyLog, is_stopped: Callable[[], bool]
) -> dict[str, Any]:
    began, report, error = time.monotonic(), MiningReport(), None
    try:
        report = mine(source, miner, log, is_stopped=is_stopped)
    except TidelineError as raised:
        error = str(raised)
    return {
        "source": source.name,
        "queries": report.queries,
        "queries_with_keys": report.queries_with_keys,
        "requests": report.key_requests,
        "parsers": {parser.value: count for parser, count in sorted(report.parsers.items())},
        "unresolved": {reason.value: count for reason, count in sorted(report.unresolved.items())},
        "dead": dict(sorted(report.dead.items())),
        "dead_inputs": [asdict(each) for each in report.dead_inputs],
        "took_s": round(time.monotonic() - began, 3),
        "error": error,
    }


def _open_source(config: Config, name: str, source: QuerySourceConfig) -> QuerySource:
    if source.kind == "trino":
        return _open_topic(config, name, source)
    from handlers.files.systems.schemes import open_file_systems
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


def _open_topic(config: Config, name: str, source: QuerySourceConfig) -> QuerySource:
    from daemon.kafka.broker import broker_settings
    from streaming.mining.sources.trino_topic import TrinoTopicSource

    broker = None if config.kafka is None else broker_settings(config.kafka)
    bootstrap = source.bootstrap or (broker.bootstrap if broker else None)
    assert bootstrap is not None, "checked with the configuration"
    client = {} if broker is None or source.bootstrap else {k: str(v) for k, v in broker.client.items()}
    return TrinoTopicSource(name, bootstrap, str(source.topic), client)


def run_miner(
    load: Callable[[], Config], report: Callable[[Mapping[str, Any]], None], every_s: float
) -> None:
    """Mine all sources every ``every_s`` seconds until SIGTERM or SIGINT, and report each pass.

    Main thread only. The last event has the reason of the end. If an error ends mining or prevents its start,
    raises it.
    """
    with stop_signals() as stopping:
        try:
            _repeat_passes(load(), report, every_s, stopping)
        except TidelineError as error:
            report({"event": "stopped", "reason": error.code, "message": str(error)[:2000]})
            raise
    report({"event": "stopped", "reason": "stop requested"})


def _repeat_passes(
    config: Config, report: Callable[[Mapping[str, Any]], None], every_s: float, stopping: threading.Event
) -> None:
    with closing(open_key_log(config)) as log, open_miner(config) as miner:
        sources = open_sources(config, ())
        report({"event": "started"})
        while not stopping.is_set():
            report({"event": MINED, "sources": mine_all(config, miner, log, sources, stopping.is_set)})
            stopping.wait(every_s)
