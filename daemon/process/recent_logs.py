"""Keeps the last lines of the log in limited memory, for the site. Secrets in them are masked, and repeated
warnings omitted, as in the log.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state.value_text import value_text


if TYPE_CHECKING:
    from collections.abc import Sequence

    from structlog.typing import EventDict, WrappedLogger


LINES_MAX: Final = 1_000
CHARACTERS_MAX: Final = 2_000
"""Maximum length of a line; only the log has the rest."""
_OWN: Final = frozenset({"event", "level", "timestamp", "exception"})


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log."""

    time: str
    """ISO 8601, UTC."""
    level: str
    text: str
    fields: tuple[tuple[str, str], ...]
    exception: str


class RecentLogs:
    """A processor of structlog that keeps the log lines. Thread-safe."""

    def __init__(self) -> None:
        self._lines: deque[LogLine] = deque(maxlen=LINES_MAX)

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Keep the log entry, and pass it on."""
        fields = tuple((name, _cut(value)) for name, value in event.items() if _is_shown(name))
        self._lines.append(
            LogLine(
                str(event.get("timestamp", "")),
                str(event.get("level", "")),
                _cut(event.get("event", "")),
                fields,
                _cut(event.get("exception", "")),
            )
        )
        return event

    def lines(self) -> Sequence[LogLine]:
        """Return the lines, the newest first."""
        return list(self._lines)[::-1]


RECENT_LOGS: Final = RecentLogs()
"""The log lines of this process."""


def _is_shown(name: str) -> bool:
    return name not in _OWN and not name.startswith("_")


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else value_text(value)
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]} (cut)"
