"""Tables of random histories: their kinds, what the writers believe about them, and the values of their rows
and partitions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from tests.builders.replication.small_workload import ACID, INSERT_ONLY, PLAIN


KINDS: Final = {
    "acid": ACID,
    "bucketed": f"clustered by (id) into 2 buckets {ACID}",
    "insert-only": INSERT_ONLY,
    "plain": PLAIN,
    "external": "stored as orc",
}
NAMES: Final = ("t{}", "Mixed_{}", "`two words {}`", "`per%cent {}`", "`eq=al, {}`")
VALUES: Final = (
    "a",
    "two words",
    "x/y",
    "é",
    "100%",
    "k=v",
    "[1]",
    "*",
    "a:b",
    "A",
    "1",
    "10",
    "100",
    " lead",
    "50%25",
    "__HIVE_DEFAULT_PARTITION__",
)
NUMBERS: Final = ("1", "2", "10")
"""Values of the partition column ``n``, which is an integer."""
COMMON: Final = 4
"""Half of all values of a partition column are of the first ones, so that statements meet partitions that
exist."""
KEYS: Final[Mapping[str, str]] = {"n": "int", "dt": "string"}
"""Partition columns, in their order, and their types."""
REUSED_SHARE: Final = 0.3
KNOWN_SHARE: Final = 0.8
"""How often a statement that changes a partition gets one that the writers believe to exist."""

Values = tuple[tuple[str, str], ...]
"""The value of each partition column, as SQL, with the column's name."""


@dataclass(frozen=True)
class Table:
    """What the writers believe about a table."""

    name: str
    kind: str
    keys: tuple[str, ...] = ()
    """Its partition columns, some of ``KEYS``."""
    columns: int = 2
    home: str = ""
    """The name whose directory it may still be in, because Hive leaves there what is renamed from a name with
    special characters."""
    written: list[Values] = field(default_factory=list, compare=False)
    """The partitions that statements wrote. A renamed table keeps the list, which its writers extend."""

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partition columns."""
        return bool(self.keys)

    @property
    def names(self) -> str:
        """The columns that every row gives, with the partition columns."""
        return ", ".join(("id", "v", *self.keys))

    @property
    def is_acid(self) -> bool:
        """Whether rows can be updated."""
        return self.kind in {"acid", "bucketed"}

    @property
    def is_transactional(self) -> bool:
        """Whether the table has write ids."""
        return self.is_acid or self.kind == "insert-only"

    @property
    def extra(self) -> str:
        """Nulls for the columns that were added."""
        return ", null" * (self.columns - 2)

    def may_have(self, name: str) -> bool:
        """Whether Hive can write into this table under a name.

        After a rename it takes ``eq=al`` of the path for a partition value, and refuses the partitions of a
        dynamic insert ("contains non-partition columns") after their files are in place. It aborts the
        transaction, later forgets it, and shows its rows after all (``test_forgotten_aborts``).
        """
        return "=" not in name or not (self.is_partitioned and self.is_transactional)

    def renamed(self, name: str) -> Table:
        """Return the table under another name."""
        return replace(self, name=name, home=self.home or (self.name if self.name.startswith("`") else ""))

    def widen(self) -> Table:
        """Return the table with one more column."""
        return replace(self, columns=self.columns + 1)


@dataclass
class Tables:
    """The tables of all writers."""

    live: dict[str, Table] = field(default_factory=dict)
    former: list[str] = field(default_factory=list)
    """Names of tables that were dropped or renamed."""
    left: set[str] = field(default_factory=set)
    """Names whose directories belong to tables that have left the database."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: int = 0

    def number(self) -> int:
        """Return a number that no other name or row has."""
        with self.lock:
            self.numbers += 1
            return self.numbers

    def listed(self) -> list[Table]:
        """Return the live tables."""
        with self.lock:
            return list(self.live.values())

    def reusable(self) -> list[str]:
        """Return the former names whose directories no other table is in, because Hive cannot read two tables
        in one directory."""
        with self.lock:
            homes = {each.home for each in self.live.values()}
            return [name for name in self.former if name not in homes and name not in self.left]

    def leave(self, table: Table) -> None:
        """Record that a table has left the database."""
        with self.lock:
            self.left |= {table.name, table.home}
        self.replace(table.name, None)

    def replace(self, old: str, new: Table | None) -> None:
        """Record that ``old`` is now ``new``, or gone."""
        with self.lock:
            if self.live.pop(old, None) is not None:
                self.former.append(old)
            if new is not None:
                self.live[new.name] = new


@dataclass(frozen=True)
class Statement:
    """One statement, what it changes if it succeeds, and what must run before it."""

    sql: str
    then: Callable[[], None] = lambda: None
    is_rolled_back: bool = False
    before: tuple[str, ...] = ()


@dataclass
class Writing:
    """What the statements of one writer are made of."""

    db: str
    random: Random
    tables: Tables
    outside: str
    """A directory above those that lie outside of their tables."""
    elsewhere: str
    """A database that no policy replicates."""

    def number(self) -> int:
        """Return a number that no other name or row has."""
        return self.tables.number()

    def of(self, table: Table) -> str:
        """Return the table's name in a statement."""
        return f"{self.db}.{table.name}"

    def happens(self, share: float = 0.5) -> bool:
        """Return True in this share of all cases."""
        return self.random.random() < share

    def new_name(self, table: Table) -> str:
        """Return a name for a table: a new one, or in some cases one that an earlier table had."""
        former = list(filter(table.may_have, self.tables.reusable()))
        if former and self.happens(REUSED_SHARE):
            return self.random.choice(former)
        return self.random.choice(list(filter(table.may_have, NAMES))).format(self.number())

    def named(self, table: Table) -> Table:
        """Return the table with such a name."""
        return table.renamed(self.new_name(table))

    def new_directory(self) -> str:
        """Return a directory that is not below a table."""
        return f"{self.outside}/{self.number()}"

    def literal(self, key: str) -> str:
        """Return a value of a partition column, as SQL."""
        if key == "n":
            return NUMBERS[0] if self.happens() else self.random.choice(NUMBERS)
        return f"'{self.random.choice(VALUES[:COMMON] if self.happens() else VALUES)}'"

    def literals(self, table: Table, prefix: str = ", ") -> str:
        """Return the values of a partition that is written, as the end of a SELECT; empty for a table without
        partitions."""
        return "".join(f"{prefix}{value}" for _, value in self._write(table))

    def partition(self, table: Table) -> str:
        """Return a partition that is written, in the form of statements."""
        return _spec(self._write(table))

    def known(self, table: Table) -> str:
        """Return a partition that probably exists."""
        return _spec(self._know(table))

    def known_some(self, table: Table) -> str:
        """Return a partition that probably exists, or all that have the same value of the first of two
        partition columns."""
        values = self._know(table)
        return _spec(values[:1] if self.happens(0.3) else values)

    def two_known(self, table: Table) -> tuple[str, str]:
        """Return two different partitions that probably exist."""
        first = self._know(table)
        others = [each for each in {*table.written} if each != first and each[:-1] == first[:-1]]
        second = self.random.choice(sorted(others)) if others else self._vary(table, first)
        return _spec(first), _spec(second)

    def known_and_new(self, table: Table) -> tuple[str, str]:
        """Return a partition that probably exists, and another one."""
        first = self._know(table)
        return _spec(first), _spec(self._vary(table, first) if self.happens() else self._write(table))

    def two_written(self, table: Table) -> tuple[str, str]:
        """Return two different partitions that are written."""
        first = self._write(table)
        return _spec(first), _spec(self._vary(table, first))

    def _know(self, table: Table) -> Values:
        if table.written and self.happens(KNOWN_SHARE):
            return self.random.choice(table.written)
        return self._write(table)

    def _write(self, table: Table) -> Values:
        return self._note(table, tuple((key, self.literal(key)) for key in table.keys))

    def _vary(self, table: Table, values: Values) -> Values:
        """Return values that differ in ``dt`` only."""
        others = [each for each in VALUES if ("dt", f"'{each}'") != values[-1]]
        return self._note(table, (*values[:-1], ("dt", f"'{self.random.choice(others)}'")))

    @staticmethod
    def _note(table: Table, values: Values) -> Values:
        table.written.append(values)
        return values

    def into(self, table: Table) -> str:
        """Return the static partition of an INSERT, empty for a table without partitions."""
        return self.partition(table) if table.is_partitioned else ""

    def rows(self, table: Table) -> str:
        """Return one to four rows of ``id, v`` and the partition columns."""
        return ",".join(self._row(table) for _ in range(self.random.randint(1, 4)))

    def _row(self, table: Table) -> str:
        return f"({self.number()},'v{self.random.randrange(9)}'{self.literals(table)})"


def _spec(values: Iterable[tuple[str, str]]) -> str:
    return f"partition ({', '.join(f'{key}={value}' for key, value in values)})"
