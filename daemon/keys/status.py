"""The section ``mining`` of the daemon's status: the progress of the miner with each query source.

The miner is a child process (``daemon.keys.loop``) that reports each of its passes as one event. A malformed
event raises MalformedEvent and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import AfterValidator, TypeAdapter, ValidationError

from daemon.status.model import StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text
from state.errors import MalformedEvent


MINED: Final = "mined"
ERROR_CHARS_MAX: Final = 2_000
Name = Annotated[str, AfterValidator(lambda text: text[:100])]
Error = Annotated[str, AfterValidator(lambda text: text[:ERROR_CHARS_MAX])]


@dataclass(frozen=True, slots=True)
class SourcePass:
    """The result of one pass over one source, as the miner reports it."""

    source: Name
    queries: int
    queries_with_keys: int
    requests: int
    unresolved: Mapping[Name, int]
    """Uses of raw JSON without a recognizable key, by reason."""
    dead: Mapping[Name, int]
    """Unreadable records, by reason."""
    took_s: float
    error: Error | None
    """Why the last pass read the source only in part; None if it read all."""


_PASSES: Final = TypeAdapter(list[SourcePass])


def read_passes(event: Mapping[str, Any]) -> list[SourcePass]:
    """Return the passes of a ``mined`` event, one per source; raise MalformedEvent."""
    try:
        return _PASSES.validate_python(event.get("sources"))
    except ValidationError as error:
        raise MalformedEvent(
            "a progress event of the miner cannot be read", reason=str(error)[:200]
        ) from error


@dataclass(frozen=True, slots=True)
class MinedSource:
    """The counts of one query source since the daemon's start."""

    name: str
    queries: int = 0
    queries_with_keys: int = 0
    requests: int = 0
    """Recorded requests, each for one key by one user in one query."""
    unresolved: int = 0
    dead: int = 0
    read_s: float | None = None
    """Unix time at which it was last read completely."""
    problem: str | None = None
    """Why the last pass did not read it completely."""

    def after(self, source_pass: SourcePass, now_s: float) -> MinedSource:
        """Return the counts after a pass."""
        return replace(
            self,
            queries=self.queries + source_pass.queries,
            queries_with_keys=self.queries_with_keys + source_pass.queries_with_keys,
            requests=self.requests + source_pass.requests,
            unresolved=self.unresolved + sum(source_pass.unresolved.values()),
            dead=self.dead + sum(source_pass.dead.values()),
            read_s=now_s if source_pass.error is None else self.read_s,
            problem=source_pass.error,
        )


@dataclass(frozen=True, slots=True)
class MiningStatus:
    """The state of the miner's process, and its sources."""

    state: str
    pid: int | None = None
    sources: tuple[MinedSource, ...] = ()
    problem: str | None = None
    code: str | None = None
    restarts: int = 0


class MiningSection(StatusSection[MiningStatus | None]):
    """The section ``mining``; None if the daemon does not mine."""

    key = "mining"
    empty = None

    def __init__(self) -> None:
        super().__init__(MiningStatus | None)

    def text(self, value: MiningStatus | None, now_s: float) -> str:
        """Return a row for each query source."""
        header = ("QUERIES OF", "READ", "WITH KEYS", "REQUESTS", "UNRESOLVED", "DEAD", "LAST READ")
        return table_text(header, (_mined_row(source, now_s) for source in value.sources) if value else ())

    def problems(self, value: MiningStatus | None) -> list[str]:
        """Return why the miner does not run, and which sources it could not read completely."""
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
        number_text(source.requests),
        number_text(source.unresolved),
        number_text(source.dead),
        "-" if source.read_s is None else f"{duration_text(max(0.0, now_s - source.read_s))} ago",
    )
