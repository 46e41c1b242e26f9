"""Where query texts come from, and the loop that takes them to the key log.

A source yields batches. Each carries the position behind it, which is stored in the same transaction as the batch's keys: after a
crash the source goes on from what was recorded, so nothing counts twice and nothing is left out. What a source finds unreadable is
counted as dead with its reason and passed over, because one broken file must not hide all later ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from streaming.keylog.asking import Ask


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from state.errors import TidelineError
    from streaming.mining.miner import Miner
    from streaming.mining.values import Parser, QueryText, Unresolved


@dataclass(frozen=True, slots=True)
class Dead:
    """An input that cannot be read."""

    origin: str
    code: str
    """Of the error (``limit-exceeded``, ``bad-input``, …)."""
    reason: str

    @classmethod
    def of(cls, origin: str, error: TidelineError) -> Dead:
        """Say what ``error`` says."""
        return cls(origin, error.code, str(error)[:500])


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Some queries, and how far the source has been read with them."""

    queries: tuple[QueryText, ...]
    position: str | None
    """The source's own form; None where a source cannot be read again (standard input)."""
    dead: tuple[Dead, ...] = ()


class QuerySource(Protocol):
    """An adapter of one place where query texts are kept."""

    @property
    def name(self) -> str:
        """The source's name in the key log; one position each."""

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield what is there after ``position``, and end when that is all for now.

        Raises StateCorrupt for a position that is not this source's, a Transient error where the place does not answer.
        """


class KeySink(Protocol):
    """Where asked keys are kept; ``streaming.keylog.log.KeyLog`` is one."""

    def position(self, source: str) -> str | None:
        """Return how far ``source`` was read."""

    def record(self, asks: Iterable[Ask], *, source: str, position: str | None) -> object:
        """Record ``asks`` and the position, both or neither."""


@dataclass(slots=True)
class MiningReport:
    """What one run of mining has come to."""

    queries: int = 0
    queries_with_keys: int = 0
    asks: int = 0
    parsers: Counter[Parser] = field(default_factory=Counter)
    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    """By error code."""


def mine(
    source: QuerySource, miner: Miner, sink: KeySink, *, is_stopped: Callable[[], bool] = lambda: False
) -> MiningReport:
    """Mine everything that ``source`` has beyond its recorded position; stop early, between batches, when told to.

    Raises what the source and the sink raise; what was recorded before stays.
    """
    report = MiningReport()
    for batch in source.batches(sink.position(source.name)):
        sink.record(_asks(batch.queries, miner, report), source=source.name, position=batch.position)
        report.dead.update(dead.code for dead in batch.dead)
        if is_stopped():
            break
    return report


def _asks(queries: Iterable[QueryText], miner: Miner, report: MiningReport) -> list[Ask]:
    """Return who asked for what; equal questions of one batch are counted together."""
    asks: dict[Ask, int] = {}
    for query in queries:
        mark, mined = miner.mine(query)
        report.queries += 1
        report.queries_with_keys += bool(mined.keys)
        report.parsers[mined.parser] += 1
        report.unresolved.update(mined.unresolved)
        for table, key in mined.keys:
            ask = Ask(table.name, key, query.user, query.at_s, mark)
            asks[ask] = asks.get(ask, 0) + 1
    report.asks += sum(asks.values())
    return [Ask(a.raw_table, a.key, a.user, a.at_s, a.fingerprint, count) for a, count in asks.items()]
