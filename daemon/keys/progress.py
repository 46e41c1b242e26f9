"""What the miner has told so far, by query source: for status and metrics.

The miner is a process of its own (``daemon.keys.mining_loop``); each of its passes is one event. An event that lacks what belongs to
it is refused (MalformedEvent) and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.keys.status import MinedSource


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
