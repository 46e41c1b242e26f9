"""Logs: one JSON object per line on standard output, or readable lines on a terminal.

An event has no line unless there is a problem; metrics count events. The log shows a repeated warning or
error once and then only counts it for a while, so that a metastore that is down for an hour causes only a few
lines. It masks secrets (``daemon.process.redaction``), including those in tracebacks and in log lines of
libraries through the standard library.

Context (``loop``, ``projection``, ``event_id``, ``table``) comes from ``structlog.contextvars`` if it is
known.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TextIO

import orjson
import structlog
from annotated_types import Interval
from structlog.typing import EventDict, Processor, WrappedLogger

from daemon.process.docs_address import with_addresses
from daemon.process.recent_logs import RECENT_LOGS
from daemon.process.redaction import Redactor


REPEATS_KEPT_MAX: Final = 1024
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_LIBRARY_LEVELS: Final = {"uvicorn": logging.WARNING, "asyncio": logging.WARNING}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How to write logs; the fields are those of the ``logs`` section."""

    level: str = "info"
    """Lowest level written."""
    format: str = "auto"
    """'auto' is 'console' on a terminal and 'json' elsewhere."""
    repeat_s: Annotated[float, Interval(ge=0)] = 60
    """How long a repeated warning or error is counted instead of written; 0 writes every one."""
    secrets: Sequence[str] = ()


class Repeats:
    """Omits repetitions of a warning or error for ``repeat_s``; the next one then has the number of omitted
    ones.

    Two records are the same if level, text, error code and subject (loop, projection, table, topic) are the
    same.
    """

    def __init__(self, repeat_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._repeat_s = repeat_s
        self._clock = clock
        self._seen: OrderedDict[tuple[object, ...], tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Pass the event on, or raise DropEvent."""
        if event.get("level") not in {"warning", "error"} or self._repeat_s == 0:
            return event
        subject = ("level", "event", "code", "loop", "projection", "table", "topic")
        left_out = self._count_repeat(tuple(str(event.get(name)) for name in subject))
        if left_out is None:
            raise structlog.DropEvent
        return {**event, "repeated": left_out} if left_out else event

    def _count_repeat(self, key: tuple[object, ...]) -> int | None:
        now = self._clock()
        with self._lock:
            written_s, count = self._seen.get(key, (None, 0))
            if written_s is not None and now - written_s < self._repeat_s:
                self._seen[key] = (written_s, count + 1)
                return None
            self._seen[key] = (now, 0)
            self._seen.move_to_end(key)
            while len(self._seen) > REPEATS_KEPT_MAX:
                self._seen.popitem(last=False)
            return count


def configure_logs(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Write the records of structlog and the standard library to ``stream`` (default: standard output) in one
    form.
    """
    output = stream or sys.stdout
    readable = settings.format == "console" or (settings.format == "auto" and output.isatty())
    before = _processors(settings)
    last = _console_renderer(colors=output.isatty()) if readable else _json_renderer()
    structlog.configure(
        processors=[*before, *last],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        # It only writes
        logger_factory=structlog.WriteLoggerFactory(file=_Lines(output)),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )
    _route_standard_library(settings, before, last, output)


def _processors(settings: LogSettings) -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        Repeats(settings.repeat_s),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _name_pages,
        Redactor(settings.secrets),
        RECENT_LOGS,
    ]


def _name_pages(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Name pages of the documentation as readers of the log find them."""
    return {name: with_addresses(value) if isinstance(value, str) else value for name, value in event.items()}


def _json_renderer() -> list[Processor]:
    return [structlog.processors.JSONRenderer(serializer=_json)]


def _console_renderer(*, colors: bool) -> list[Processor]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
    return [_one_line, renderer]


def _one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape line ends, so that text from outside cannot look like another record."""
    event["event"] = str(event.get("event", "")).replace("\r", "\\r").replace("\n", "\\n")
    return event


def _json(event: EventDict, **_options: object) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class _Lines:
    """Writes whole lines, one write call each, so that lines of several threads do not mix."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        with self._lock:
            self._output.write(text)

    def flush(self) -> None:
        with self._lock:
            self._output.flush()


def _route_standard_library(
    settings: LogSettings, before: list[Processor], last: list[Processor], output: TextIO
) -> None:
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_without_drops(before)],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    handler.addFilter(_repeat_filter(settings.repeat_s))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[settings.level])
    for name, level in _LIBRARY_LEVELS.items():
        logging.getLogger(name).setLevel(max(level, root.level))


def _without_drops(processors: list[Processor]) -> list[Processor]:
    # A formatter cannot drop a record, so a filter does that for the records of Python's logging.
    return [processor for processor in processors if not isinstance(processor, Repeats)]


def _repeat_filter(repeat_s: float) -> Callable[[logging.LogRecord], bool]:
    repeats = Repeats(repeat_s)

    def passes(record: logging.LogRecord) -> bool:
        event: dict[str, Any] = {
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "topic": record.name,
        }
        try:
            repeats(None, "", event)
        except structlog.DropEvent:
            return False
        return True

    return passes
