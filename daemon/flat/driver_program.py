"""The process of a flat table's driver: signals, progress, and what is missing told in one message."""

from __future__ import annotations

import re
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from daemon.process.signals import stop_signals
from state.columns.slots import HOUR_S
from state.errors import BadInput, ConfigError, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from streaming.driver.progress import ProgressListener
    from streaming.driver.run import Driver
    from streaming.settings import FlatSettings


_HOUR: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[-T ](\d{2}))?", re.ASCII)


def spark_commands() -> ModuleType:
    """Return ``streaming.driver.commands``; raise ConfigError where Spark is not installed."""
    try:
        import py4j  # noqa: F401 (whether it is there is the question)
        import pyspark  # noqa: F401 (likewise)

        from streaming.driver import commands
    except ImportError as error:
        raise ConfigError(
            "flat tables need packages that are not installed",
            package=error.name,
            hint="Install them: pip install 'tideline[flat]'.",
        ) from error
    return commands


@dataclass(frozen=True, slots=True)
class Order:
    """What a driver is to do."""

    settings: FlatSettings
    view: str | None
    """The compatibility view that it keeps."""


def run_driver(order: Callable[[], Order], progress: ProgressListener, *, once: bool) -> None:
    """Run a driver until SIGTERM or SIGINT; the last event tells how it ended, also where it could not begin.

    Main thread only. Raises what ended it.
    """
    from daemon.flat.view import keeping_view
    from streaming.driver.progress import stopped_event

    with stop_signals() as asked:
        try:
            commands, given = spark_commands(), order()
        except TidelineError as error:
            progress(stopped_event(error))
            raise
        tell = progress if given.view is None else keeping_view(given.settings, given.view, progress)
        commands.run(given.settings, tell, once=once, when_ready=lambda driver: _stop_when(asked, driver))


def _stop_when(asked: threading.Event, driver: Driver) -> None:
    """Stop ``driver`` as soon as it is asked for; PySpark has taken SIGINT for itself meanwhile, which is taken back."""
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGTERM))

    def wait() -> None:
        asked.wait()
        driver.stop()

    threading.Thread(target=wait, name="stop", daemon=True).start()


def hours_between(first: str | None, end: str | None) -> range | None:
    """Return the hours from ``first`` to before ``end``, in seconds since 1970; None for all.

    Raises BadInput for a text that is no hour, and for an end that is not behind the beginning.
    """
    if first is None and end is None:
        return None
    start = 0 if first is None else hour_named(first)
    stop = int(time.time()) if end is None else hour_named(end)
    if stop <= start:
        raise BadInput("the last hour is not after the first", first=first, end=end)
    return range(start, stop, HOUR_S)


def hour_named(text: str) -> int:
    """Read ``2016-04-18-21``, ``2016-04-18T21`` or ``2016-04-18`` (its first hour), UTC; BadInput."""
    from datetime import UTC, datetime

    found = _HOUR.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)  # noqa: TRY301 - one way to say it
        year, month, day, hour = (int(part or 0) for part in found.groups())
        return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp())
    except ValueError:
        raise BadInput("this is no hour", value=text, hint="2016-04-18-21 or 2016-04-18 is wanted.") from None
