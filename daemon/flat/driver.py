"""The process of a flat table's driver: signals, progress events, and the compatibility view.

The view lets queries use former column names. Writing it needs only the metastore, not Spark. A driver writes
it again after each batch that has changed the columns. If that fails, the driver prints the reason and
continues; the view keeps its form until the next change of the columns.

Before a manual run, the driver reads SQL files of the configuration into the key log, so that their keys
become columns. The daemon mines all sources of queries itself (``mining.every_s``). Without it, the queries
of ``tideline split try`` would wait for ``tideline keys mine``.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from daemon.keylog.opening import open_key_log
from daemon.keylog.settings import MINING
from daemon.process.signals import stop_signals
from daemon.terminal.application import print_text
from state.columns.slots import HOUR_S
from state.errors import BadInput, ConfigError, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from daemon.config.model import Config
    from daemon.flat.settings import FlatConfig
    from streaming.driver.progress import ProgressListener
    from streaming.driver.run import Driver
    from streaming.settings import FlatSettings


_HOUR: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[-T ](\d{2}))?", re.ASCII)


def spark_commands() -> ModuleType:
    """Return ``streaming.driver.commands``; raise ConfigError without Spark."""
    try:
        import py4j  # noqa: F401 - only whether it is installed matters
        import pyspark  # noqa: F401 - likewise

        from streaming.driver import commands
    except ImportError as error:
        raise ConfigError(
            "flat tables need packages that are not installed",
            package=error.name,
            hint="Install them: pip install 'tideline[flat]'.",
        ) from error
    return commands


@dataclass(frozen=True, slots=True)
class DriverOrder:
    """The settings of a driver, and of its view."""

    settings: FlatSettings
    view: str | None
    """Name of the compatibility view; None for a table without one."""


def run_driver(order: Callable[[], DriverOrder], progress: ProgressListener, *, once: bool) -> None:
    """Run a driver until SIGTERM or SIGINT. The last event has the reason of the end, even if the start
    failed.

    Main thread only. Raises the error that ended it.
    """
    from streaming.driver.progress import stopped_event

    with stop_signals() as stopping:
        try:
            commands, ordered = spark_commands(), order()
        except TidelineError as error:
            progress(stopped_event(error))
            raise
        listener = progress if ordered.view is None else keep_view(ordered.settings, ordered.view, progress)
        commands.run(
            ordered.settings, listener, once=once, when_ready=lambda driver: _stop_when(stopping, driver)
        )


def _stop_when(stopping: threading.Event, driver: Driver) -> None:
    """Stop ``driver`` after a signal. Sets the handler of SIGINT again, because PySpark has replaced it."""
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))

    def wait() -> None:
        stopping.wait()
        driver.stop()

    threading.Thread(target=wait, name="stop", daemon=True).start()


def hours_between(first: str | None, end: str | None) -> range | None:
    """Return the hours from ``first`` up to, but not including, ``end``, in seconds since 1970; None for all
    hours.

    Raises BadInput for a malformed hour, and if ``end`` is not after ``first``.
    """
    if first is None and end is None:
        return None
    start = 0 if first is None else parse_hour(first)
    stop = int(time.time()) if end is None else parse_hour(end)
    if stop <= start:
        raise BadInput("the last hour is not after the first", first=first, end=end)
    return range(start, stop, HOUR_S)


def parse_hour(text: str) -> int:
    """Parse ``2016-04-18-21``, ``2016-04-18T21`` or ``2016-04-18`` (its first hour), UTC; raise BadInput."""
    from datetime import UTC, datetime

    match = _HOUR.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)  # noqa: TRY301 - one error for all malformed hours
        year, month, day, hour = (int(part or 0) for part in match.groups())
        return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp())
    except ValueError:
        raise BadInput(
            "malformed hour", value=text, hint="Write it as 2016-04-18-21 or 2016-04-18."
        ) from None


def view_name(flat: FlatConfig) -> str:
    """Return the name of the table's view; by default the table's name with the suffix ``_compat``."""
    return flat.view or f"{flat.table.partition('.')[2]}_compat"


def write_view(settings: FlatSettings, name: str) -> dict[str, Any]:
    """Write the view, which has the current columns and their former names; return a summary.

    Raises ConfigError for a table in Spark's own catalog, NotFound if the table does not exist, and
    InvalidRequest if another table has the view's name.
    """
    if not settings.metastores:
        raise ConfigError(
            "a compatibility view needs a metastore, and the table is in Spark's own catalog",
            table=settings.name,
        )
    from handlers.metastore.client import Metastore
    from streaming.table.catalog import HiveCatalog
    from streaming.table.compatibility_view import CompatibilityView
    from streaming.table.flat_table import parse_table

    with closing(Metastore(settings.metastores)) as metastore:
        catalog = HiveCatalog(metastore)
        state = parse_table(catalog.get_table(settings.database, settings.table))
        view = CompatibilityView(catalog, settings.database, settings.table, name)
        changed = view.refresh(state)
        return {
            "view": f"{settings.database}.{name}",
            "table": settings.name,
            "version": state.version,
            "changed": changed,
            "old_names": {old: where.text for old, where in view.old_names().items()},
        }


def keep_view(settings: FlatSettings, name: str, progress: ProgressListener) -> ProgressListener:
    """Return a listener that passes events to ``progress``, and writes the view if an event has a new layout
    version.
    """
    shown: int | None = None

    def listen(event: Mapping[str, Any]) -> None:
        nonlocal shown
        progress(event)
        version = event.get("layout_version")
        if version is None or version == shown:
            return
        try:
            write_view(settings, name)
            shown = version
        except TidelineError as error:
            print_text(f"the compatibility view {name} was not written: {error}", err=True)

    return listen


def mine_query_files(config: Config) -> int:
    """Mine all sources of kind 'sql-files' unless the daemon does.

    Returns the number of new or changed queries. Raises ConfigError for sources without a raw table, and
    errors of the key log.
    """
    mining = MINING.of(config)
    sources = {name: each for name, each in mining.sources.items() if each.kind == "sql-files"}
    if not sources or mining.every_s is not None:
        return 0
    from handlers.files.systems.schemes import open_file_systems
    from streaming.mining.miner import Miner, mine
    from streaming.mining.sources.directory import Directory
    from streaming.mining.sources.sql_files import SqlFilesSource
    from streaming.mining.text_worker import TextWorker

    rules, queries = mining.rules(), 0
    with closing(open_key_log(config)) as log, closing(TextWorker(rules)) as worker:
        miner = Miner(rules, worker)
        for name, source in sources.items():
            tree = Directory.open(str(source.path), open_file_systems(config.files.all_options()))
            queries += mine(SqlFilesSource(name, tree, source.user, source.standing), miner, log).queries
    return queries
