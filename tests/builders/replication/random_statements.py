"""Random statements: tables of every kind with special names, and every statement that changes them.

Writers share their tables, so statements meet dropped and renamed tables, locks and conflicts, and fail. What the writers believe about
tables only makes most statements valid: both clusters are compared with each other, never with this model.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random


ACID: Final = "stored as orc tblproperties ('transactional'='true')"
KINDS: Final = {
    "acid": ACID,
    "bucketed": f"clustered by (id) into 2 buckets {ACID}",
    "insert-only": "stored as textfile tblproperties ('transactional'='true', 'transactional_properties'='insert_only')",
    "plain": "stored as orc tblproperties ('transactional'='false')",
    "external": "stored as orc",
}
NAMES: Final = ("t{}", "Mixed_{}", "`two words {}`", "`per%cent {}`", "`eq=al, {}`")
VALUES: Final = ("a", "two words", "x/y", "é", "100%", "k=v", "[1]", "*", "a:b", "A", "1", "10", "100")
REUSED_SHARE: Final = 0.3
TABLES_MAX: Final = 12
"""Live tables; at this number, tables are dropped instead of created."""


@dataclass(frozen=True)
class Table:
    """What the writers believe about a table."""

    name: str
    kind: str
    is_partitioned: bool
    columns: int = 2

    @property
    def is_acid(self) -> bool:
        """Whether rows can be updated."""
        return self.kind in {"acid", "bucketed"}


@dataclass
class Tables:
    """The tables of all writers."""

    live: dict[str, Table] = field(default_factory=dict)
    former: list[str] = field(default_factory=list)
    """Names of tables that were dropped or renamed."""
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

    def replace(self, old: str, new: Table | None) -> None:
        """Record that ``old`` is now ``new``, or gone."""
        with self.lock:
            if self.live.pop(old, None) is not None:
                self.former.append(old)
            if new is not None:
                self.live[new.name] = new


@dataclass(frozen=True)
class Statement:
    """One statement, and what it changes if it succeeds."""

    sql: str
    then: Callable[[], None] = lambda: None
    is_rolled_back: bool = False


@dataclass
class RandomStatements:
    """The statements of one writer."""

    db: str
    random: Random
    tables: Tables
    outside: str
    """A directory above those of partitions outside of their tables."""

    def choose(self) -> tuple[str, Statement]:
        """Return a random statement that probably fits the present tables."""
        tables = self.tables.listed()
        if len(tables) < TABLES_MAX // 3 or (len(tables) < TABLES_MAX and self.random.random() < 0.1):  # noqa: PLR2004 - a share
            return "create", self._create()
        table = self.random.choice(tables)
        while True:
            kind = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if _suits(kind, table):
                made: Statement = getattr(self, f"_{kind}")(table)
                return kind, made

    def _name(self) -> str:
        """Return a name: a new one, or in some cases one that an earlier table had."""
        former = self.tables.former
        if former and self.random.random() < REUSED_SHARE:
            return self.random.choice(former)
        return self.random.choice(NAMES).format(self.tables.number())

    def _value(self) -> str:
        return self.random.choice(VALUES)

    def _rows(self, table: Table) -> str:
        return ",".join(self._row(table) for _ in range(self.random.randint(1, 4)))

    def _row(self, table: Table) -> str:
        dt = f",'{self._value()}'" if table.is_partitioned else ""
        return f"({self.tables.number()},'v{self.random.randrange(9)}'{dt})"

    def _create(self) -> Statement:
        table = Table(self._name(), self.random.choice(list(KINDS)), self.random.random() < 0.5)  # noqa: PLR2004 - half
        by = "partitioned by (dt string) " if table.is_partitioned else ""
        what = "external table" if table.kind == "external" else "table"
        sql = f"create {what} {self.db}.{table.name} (id int, v string) {by}{KINDS[table.kind]}"
        return Statement(sql, lambda: self.tables.replace(table.name, table))

    def _insert(self, table: Table) -> Statement:
        dt = ", dt" if table.is_partitioned else ""
        return Statement(f"insert into {self.db}.{table.name} (id, v{dt}) values {self._rows(table)}")

    def _roll_back(self, table: Table) -> Statement:
        return Statement(self._insert(table).sql, is_rolled_back=True)

    def _fail(self, table: Table) -> Statement:
        dt = ", 'a'" if table.is_partitioned else ""
        columns = "id, v, dt" if table.is_partitioned else "id, v"
        return Statement(
            f"insert into {self.db}.{table.name} ({columns}) "
            f"select id, cast(assert_true(id < 0) as string){dt} from {self.db}.{table.name}"
        )

    def _update(self, table: Table) -> Statement:
        n = self.random.randint(2, 5)
        return Statement(
            f"update {self.db}.{table.name} set v = 'u{self.tables.number()}' where id % {n} = 0"
        )

    def _delete(self, table: Table) -> Statement:
        return Statement(f"delete from {self.db}.{table.name} where id % 7 = {self.random.randrange(7)}")

    def _merge(self, table: Table) -> Statement:
        """Update and delete some rows, or insert one if there are none."""
        n, names, given = self.tables.number(), "id, v", f"select {self.tables.number()} as id, 'merged' as v"
        if table.is_partitioned:
            names, given = f"{names}, dt", f"{given}, '{self._value()}' as dt"
        values = ", ".join(f"s.{name}" for name in names.split(", "))
        return Statement(
            f"merge into {self.db}.{table.name} t using ({given}) s on t.id % {self.random.randint(3, 9)} = 1 "
            f"when matched and t.id % 2 = 0 then delete when matched then update set v = 'm{n}' "
            f"when not matched then insert ({names}) values ({values})"
        )

    def _rewrite(self, table: Table) -> Statement:
        """Overwrite every partition that keeps a row."""
        name = f"{self.db}.{table.name}"
        return Statement(f"insert overwrite table {name} select * from {name} where id % 5 > 0")

    def _overwrite(self, table: Table) -> Statement:
        n, extra = self.tables.number(), ", null" * (table.columns - 2)
        into = f" partition (dt='{self._value()}')" if table.is_partitioned else ""
        return Statement(f"insert overwrite table {self.db}.{table.name}{into} select {n}, 'over'{extra}")

    def _several(self, table: Table) -> Statement:
        """Insert into two static partitions by one statement, of which Hive logs one."""
        first, second = self.random.sample(VALUES, 2)
        n, extra = self.tables.number(), ", null" * (table.columns - 2)
        into = f"insert into {self.db}.{table.name} partition (dt='{{}}') select s.n, 'm'{extra}"
        return Statement(
            f"from (select {n} as n union all select {n} + 1) s {into.format(first)} where s.n = {n} "
            f"{into.format(second)} where s.n > {n}"
        )

    def _two_tables(self, table: Table) -> Statement:
        """Insert into two tables by one transaction."""
        other = self.random.choice(self.tables.listed() or [table])
        n = self.tables.number()
        inserts = [
            f"insert into {self.db}.{each.name} select s.n, 'two'{', null' * (each.columns - 2)}"
            + (f", '{self._value()}'" if each.is_partitioned else "")
            for each in (table, other)
        ]
        return Statement(f"from (select {n} as n union all select {n} + 1) s {' '.join(inserts)}")

    def _exchange(self, table: Table) -> Statement:
        """Move a partition to another plain table; Hive requires equal columns."""
        others = [
            each
            for each in self.tables.listed()
            if each.is_partitioned and each.kind == "plain" and each.columns == table.columns
        ]
        other = self.random.choice(others or [table])
        return Statement(
            f"alter table {self.db}.{table.name} exchange partition (dt='{self._value()}') "
            f"with table {self.db}.{other.name}"
        )

    def _constraint(self, table: Table) -> Statement:
        name = f"alter table {self.db}.{table.name}"
        if self.random.random() < 0.5:  # noqa: PLR2004 - half
            return Statement(f"{name} drop constraint key_{self.random.randrange(self.tables.number())}")
        return Statement(
            f"{name} add constraint key_{self.tables.number()} primary key (id) disable novalidate"
        )

    def _own(self, table: Table) -> Statement:
        return Statement(f"alter table {self.db}.{table.name} set owner user u{self.tables.number()}")

    def _truncate(self, table: Table) -> Statement:
        return Statement(f"truncate table {self.db}.{table.name}")

    def _rename(self, table: Table) -> Statement:
        new = Table(self._name(), table.kind, table.is_partitioned, table.columns)
        sql = f"alter table {self.db}.{table.name} rename to {self.db}.{new.name}"
        return Statement(sql, lambda: self.tables.replace(table.name, new))

    def _drop(self, table: Table) -> Statement:
        sql = f"drop table {self.db}.{table.name}{self.random.choice(('', ' purge'))}"
        return Statement(sql, lambda: self.tables.replace(table.name, None))

    def _copy(self, table: Table) -> Statement:
        new = Table(self._name(), "acid", is_partitioned=False)
        sql = f"create table {self.db}.{new.name} {ACID} as select id, v from {self.db}.{table.name}"
        return Statement(sql, lambda: self.tables.replace(new.name, new))

    def _add_column(self, table: Table) -> Statement:
        new = Table(table.name, table.kind, table.is_partitioned, table.columns + 1)
        cascade = " cascade" if table.is_partitioned else ""
        sql = f"alter table {self.db}.{table.name} add columns (c{table.columns} string){cascade}"
        return Statement(sql, lambda: self.tables.replace(table.name, new))

    def _add_partition(self, table: Table) -> Statement:
        """Add an empty partition; to an external table, half of the time outside of the table's directory."""
        is_outside = table.kind == "external" and self.random.random() < 0.5  # noqa: PLR2004 - half
        where = f" location '{self.outside}/{self.tables.number()}'" if is_outside else ""
        return Statement(
            f"alter table {self.db}.{table.name} add if not exists partition (dt='{self._value()}'){where}"
        )

    def _drop_partition(self, table: Table) -> Statement:
        return Statement(
            f"alter table {self.db}.{table.name} drop if exists partition (dt='{self._value()}')"
        )

    def _drop_partitions(self, table: Table) -> Statement:
        return Statement(
            f"alter table {self.db}.{table.name} drop if exists partition (dt < '{self._value()}')"
        )

    def _rename_partition(self, table: Table) -> Statement:
        old, new = self.random.sample(VALUES, 2)
        return Statement(
            f"alter table {self.db}.{table.name} partition (dt='{old}') rename to partition (dt='{new}')"
        )

    def _set_property(self, table: Table) -> Statement:
        return Statement(
            f"alter table {self.db}.{table.name} set tblproperties ('note'='{self.tables.number()}')"
        )

    def _analyze(self, table: Table) -> Statement:
        return Statement(f"analyze table {self.db}.{table.name} compute statistics for columns")

    def _view(self, table: Table) -> Statement:
        return Statement(f"create or replace view {self.db}.seen as select id from {self.db}.{table.name}")


def _suits(kind: str, table: Table) -> bool:
    return (
        (kind not in ACID_ONLY or table.is_acid)
        and (kind not in PARTITIONED_ONLY or table.is_partitioned)
        and (kind not in PLAIN_ONLY or table.kind == "plain")
    )


WEIGHTS: Final[Mapping[str, int]] = {
    "insert": 30,
    "update": 8,
    "delete": 5,
    "merge": 4,
    "overwrite": 5,
    "rewrite": 3,
    "several": 5,
    "roll_back": 5,
    "fail": 2,
    "truncate": 2,
    "rename": 4,
    "drop": 3,
    "copy": 2,
    "add_column": 2,
    "add_partition": 4,
    "drop_partition": 4,
    "rename_partition": 3,
    "drop_partitions": 2,
    "two_tables": 4,
    "exchange": 3,
    "constraint": 3,
    "own": 1,
    "set_property": 3,
    "analyze": 2,
    "view": 1,
}
ACID_ONLY: Final = frozenset({"update", "delete", "merge"})
PARTITIONED_ONLY: Final = frozenset(
    {"several", "add_partition", "drop_partition", "drop_partitions", "rename_partition", "exchange"}
)
PLAIN_ONLY: Final = frozenset({"exchange"})
