"""The messages between the daemon and the process for its probes.

The daemon sends reports on the standard input of the process, each a JSON line. The process sends queries
through a socket, each a JSON line as well, one at a time; an answer is a line with its length, and its bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import IO, Final, Self

from daemon.http.endpoints import Made


READY: Final = "/readyz"
METRICS: Final = "/metrics"


@dataclass(frozen=True, slots=True)
class Report:
    """Which loops live, and until when that is certain. Times are those of the monotonic clock, which is the
    same in all processes of a machine.
    """

    made_s: float
    until_s: float
    """A daemon that has sent no further report by then is stuck as a whole."""
    stuck: list[str]
    next_loop: str | None = None
    """The loop that is stuck next unless the daemon reports that it had a heartbeat."""
    next_s: float = 0.0
    """When that is."""

    @classmethod
    def of(cls, deadlines: Mapping[str, float], now_s: float, silent_max_s: float) -> Self:
        """Return the report of a moment, from the time at which each loop is stuck."""
        stuck = [name for name, at_s in deadlines.items() if at_s < now_s]
        later = [(at_s, name) for name, at_s in deadlines.items() if now_s <= at_s < math.inf]
        at_s, name = min(later, default=(0.0, None))
        return cls(now_s, now_s + silent_max_s, stuck, name, at_s)

    def reasons(self, now_s: float) -> list[str]:
        """Return why the daemon needs a restart; empty if it does not."""
        found = [f"{name} has no heartbeat" for name in self.stuck]
        if self.next_loop is not None and self.next_s < now_s:
            found.append(f"{self.next_loop} has no heartbeat")
        if self.until_s < now_s:
            found.append(f"the daemon has not reported for {now_s - self.made_s:.0f} s")
        return found


@dataclass(frozen=True, slots=True)
class Query:
    """A request that only the daemon can answer."""

    path: str
    accept: str
    """The header of the request, in which the client names formats."""
    refused: dict[str, int]
    """How many connections and requests were refused since the last query, by reason."""


def write_message(stream: IO[bytes], message: Report | Query) -> None:
    """Send a report or a query."""
    stream.write(json.dumps(asdict(message)).encode() + b"\n")
    stream.flush()


def read_report(stream: IO[bytes]) -> Report | None:
    """Receive the next report; None if the daemon has ended."""
    line = stream.readline()
    return Report(**json.loads(line)) if line else None


def read_query(stream: IO[bytes]) -> Query | None:
    """Receive the next query; None if the process has ended."""
    line = stream.readline()
    return Query(**json.loads(line)) if line else None


def write_answer(stream: IO[bytes], made: Made) -> None:
    """Send an answer."""
    head = {"bytes": len(made.content), "content_type": made.content_type, "code": made.code}
    stream.write(json.dumps(head).encode() + b"\n" + made.content)
    stream.flush()


def read_answer(stream: IO[bytes]) -> Made | None:
    """Receive an answer; None if the daemon has ended."""
    line = stream.readline()
    if not line:
        return None
    head = json.loads(line)
    content = stream.read(head["bytes"])
    return Made(content, head["content_type"], head["code"]) if len(content) == head["bytes"] else None
