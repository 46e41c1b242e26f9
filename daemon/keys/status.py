"""Mining in the daemon's status: its section ``mining``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from daemon.status.model import StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text


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
