"""The page of the last lines of the log, for operators: it names hosts, tables and users."""

from __future__ import annotations

from typing import Any

from daemon.http.transport.answering import Lane
from daemon.process.recent_logs import RECENT_LOGS, LogLine
from daemon.site.lists import ListParameters, list_rows
from daemon.site.pages import Asked, PageRoute, require_operator


def log_page() -> PageRoute:
    """Return the route of the page."""

    def values(asked: Asked) -> dict[str, Any]:
        require_operator(asked, "the log")
        return {"listed": list_rows(asked, RECENT_LOGS.lines(), _text)}

    return PageRoute("/logs", "logs.html", values, entry="Log", parameters=ListParameters, lane=Lane.MEMORY)


def _text(line: LogLine) -> str:
    fields = " ".join(f"{name}={value}" for name, value in line.fields)
    return f"{line.time} {line.level} {line.text} {fields}"
