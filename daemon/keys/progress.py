"""What the miner has reported, by query source, and the section ``mining`` of the daemon's status that is made from it.

The miner is a child process (``daemon.keys.loop``) that reports each of its passes as one event. A malformed event raises
MalformedEvent and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from daemon.status.model import StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Mapping


MINED: Final = "mined"
ERROR_CHARS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class SourcePass:
    """What one pass over one source came to."""

    source: str
    queries: int
    queries_with_keys: int
    asks: int
    unresolved: Mapping[str, int]
    """Uses of raw JSON that could not be followed, by reason."""
    dead: Mapping[str, int]
    """Records that could not be read, by reason."""
    took_s: float
    error: str | None
    """Why it was not read to its end; None where it was."""


def passes_of(event: Mapping[str, Any]) -> list[SourcePass]:
    """Return what a ``mined`` event tells, a pass per source; raise MalformedEvent."""
    try:
        return [
            SourcePass(
                str(each["source"])[:100],
                int(each["queries"]),
                int(each["queries_with_keys"]),
                int(each["asks"]),
                _numbers(each["unresolved"]),
                _numbers(each["dead"]),
                float(each["took_s"]),
                None if each["error"] is None else str(each["error"])[:ERROR_CHARS_MAX],
            )
            for each in event["sources"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedEvent("an event of the miner cannot be read", reason=repr(error)[:200]) from error


def after(known: MinedSource, done: SourcePass, now_s: float) -> MinedSource:
    """Return how a source stands after a pass; counts are since the daemon's start."""
    return replace(
        known,
        queries=known.queries + done.queries,
        queries_with_keys=known.queries_with_keys + done.queries_with_keys,
        asks=known.asks + done.asks,
        unresolved=known.unresolved + sum(done.unresolved.values()),
        dead=known.dead + sum(done.dead.values()),
        read_s=now_s if done.error is None else known.read_s,
        problem=done.error,
    )


def _numbers(given: Mapping[str, Any]) -> dict[str, int]:
    return {str(name)[:100]: int(value) for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class MinedSource:
    """One source of queries: what mining made of it since the daemon's start."""

    name: str
    queries: int = 0
    queries_with_keys: int = 0
    asks: int = 0
    """Questions that were recorded: a key, asked by somebody in a query."""
    unresolved: int = 0
    dead: int = 0
    read_s: float | None = None
    """Unix time at which it was last read to its end."""
    problem: str | None = None
    """Why the last pass did not."""


@dataclass(frozen=True, slots=True)
class MiningStatus:
    """The miner: how its process goes, and its sources."""

    state: str
    pid: int | None = None
    sources: tuple[MinedSource, ...] = ()
    problem: str | None = None
    code: str | None = None
    restarts: int = 0


class MiningSection(StatusSection[MiningStatus | None]):
    """The section ``mining``; None where the daemon does not mine."""

    key = "mining"
    empty = None

    def __init__(self) -> None:
        super().__init__(MiningStatus | None)

    def text(self, value: MiningStatus | None, now_s: float) -> str:
        """Return a row for each query source."""
        header = ("QUERIES OF", "READ", "WITH KEYS", "QUESTIONS", "UNRESOLVED", "DEAD", "LAST READ")
        return table_text(header, (_mined_row(source, now_s) for source in value.sources) if value else ())

    def problems(self, value: MiningStatus | None) -> list[str]:
        """Return why the miner does not run, and which sources it could not read to the end."""
        if value is None:
            return []
        own = [f"mining: {value.problem}"] if value.problem else []
        return own + [
            f"mining of {source.name}: {source.problem}" for source in value.sources if source.problem
        ]


MINING_STATUS: Final = MiningSection()


def _mined_row(source: MinedSource, now_s: float) -> tuple[str, ...]:
    return (
        source.name,
        number_text(source.queries),
        number_text(source.queries_with_keys),
        number_text(source.asks),
        number_text(source.unresolved),
        number_text(source.dead),
        "-" if source.read_s is None else f"{duration_text(max(0.0, now_s - source.read_s))} ago",
    )
