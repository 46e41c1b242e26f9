"""Random histories of a source in memory: single changes, each of which does nothing if it is not
possible."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from hypothesis import strategies as st

from dev.fixtures.memory_source import MemorySource


NAMES = ("a", "b", "c")
DAYS = tuple(f"2015-01-{day:02}" for day in range(1, 7))


class Kind(Enum):
    """The kind of a change; if its table does not exist, the table is created instead."""

    ADD = auto()
    DROP = auto()
    RENAME = auto()
    ALTER = auto()
    DESCRIBE = auto()
    RENAME_TABLE = auto()
    DROP_TABLE = auto()
    CASCADE = auto()
    ADD_COLUMN = auto()
    RENAME_COLUMN = auto()
    SWAP = auto()
    EXCHANGE = auto()
    RECREATE = auto()
    TRUNCATE = auto()
    UNLISTED = auto()
    """An added or dropped partition whose event lacks its list of partitions."""
    DROP_DATABASE = auto()


@dataclass(frozen=True, slots=True)
class Change:
    """``other`` is the second value of a partition, or the number of another partition or table."""

    kind: Kind
    table: str
    day: str
    other: int

    def happen(self, source: MemorySource) -> None:  # noqa: C901, PLR0912 - one case for each kind
        """Apply the change, or do nothing if it is not possible."""
        if self.table not in source.tables:
            source.create(self.table)
            return
        match self.kind:
            case Kind.RENAME_TABLE:
                if NAMES[self.other] not in source.tables:
                    source.rename(self.table, NAMES[self.other])
            case Kind.DROP_TABLE | Kind.RECREATE:
                source.drop_table(self.table)
                if self.kind is Kind.RECREATE:
                    source.create(self.table)
                    source.add(self.table, self.day, str(self.other))
            case Kind.CASCADE | Kind.ADD_COLUMN | Kind.RENAME_COLUMN:
                self._happen_to_columns(source)
            case Kind.TRUNCATE:
                for values in sorted(source.partitions[self.table]):
                    source.alter_partition(self.table, values, {"numRows": "0"})
            case Kind.UNLISTED:
                self._happen_without_list(source)
            case Kind.SWAP | Kind.EXCHANGE:
                self._happen_to_two_tables(source)
            case Kind.DROP_DATABASE:
                if self.day == DAYS[0]:  # rarely
                    source.drop_database()
            case _:
                self._happen_to_a_partition(source)

    def _happen_without_list(self, source: MemorySource) -> None:
        values = (self.day, str(self.other))
        change = source.drop if values in source.partitions[self.table] else source.add
        change(self.table, *values)
        source.lose_list()

    def _happen_to_columns(self, source: MemorySource) -> None:
        match self.kind:
            case Kind.CASCADE:
                source.cascade(self.table)
            case Kind.ADD_COLUMN:
                source.add_column(self.table)
            case _:
                source.rename_column(self.table)

    def _happen_to_two_tables(self, source: MemorySource) -> None:
        other = NAMES[self.other]
        if other == self.table or other not in source.tables:
            return
        if self.kind is Kind.SWAP:
            for old, new in ((self.table, "swapped"), (other, self.table), ("swapped", other)):
                source.rename(old, new)
            return
        for values in sorted(source.partitions[self.table].keys() - source.partitions[other].keys())[:1]:
            source.add(other, *values)  # in Hive's order
            source.drop(self.table, *values)

    def _happen_to_a_partition(self, source: MemorySource) -> None:
        values = (self.day, str(self.other))
        held = sorted(source.partitions[self.table])
        is_new = values not in held
        if self.kind is Kind.ADD:
            if is_new:
                source.add(self.table, *values)
            return
        if not held:
            return
        old = held[self.other % len(held)]
        match self.kind:
            case Kind.DROP:
                source.drop(self.table, *old)
            case Kind.RENAME if is_new:
                source.rename_partition(self.table, old, values)
            case Kind.ALTER:
                source.alter_partition(self.table, old, {"numRows": self.day})
            case Kind.DESCRIBE:
                source.describe(self.table, old, {"COLUMN_STATS_ACCURATE": self.day})


def changes(kinds: Sequence[Kind], days: Sequence[str] = DAYS) -> st.SearchStrategy[Change]:
    """Return a strategy for changes; the probability of a kind is its frequency in ``kinds``."""
    return st.builds(
        Change, st.sampled_from(kinds), st.sampled_from(NAMES), st.sampled_from(days), st.integers(0, 2)
    )


def drawn_change(drawn: random.Random, kinds: Sequence[Kind]) -> Change:
    """Yield changes without hypothesis, for tests on a real server, which is too slow for many examples."""
    return Change(drawn.choice(kinds), drawn.choice(NAMES), drawn.choice(DAYS), drawn.randrange(3))


def happen_meanwhile(source: MemorySource, during: Sequence[Change]) -> None:
    """Apply one of ``during`` each time a table is listed, until none is left."""
    waiting = list(during)

    def one() -> None:
        if waiting:
            waiting.pop().happen(source)

    source.meanwhile = one
