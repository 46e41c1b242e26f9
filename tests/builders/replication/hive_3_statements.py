"""Random statements on the tables of a Hive 3.1 source. Rows of aborted transactions have k = 666."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from tests.builders.replication.hive_3_source import ACID, INSERT_ONLY
from tests.builders.replication.random_tables import Statement


TABLES: Final = {
    "t": f"(k int, v string) {ACID}",
    "p": f"(k int, v string) partitioned by (dt string) {ACID}",
    "b": f"(k int, v string) clustered by (k) into 2 buckets {ACID}",
    "lines": f"(k int, v string) {INSERT_ONLY}",
    "parts": f"(k int, v string) partitioned by (dt string) {INSERT_ONLY}",
}
STATEMENTS: Final = (
    "insert into {db}.t values ({n}, 'a'), ({m}, 'b')",
    "insert into {db}.b values ({n}, 'a'), ({m}, 'b')",
    "insert into {db}.lines values ({n}, 'a')",
    "insert into {db}.p partition (dt = 'd{d}') values ({n}, 'a')",
    "insert into {db}.parts partition (dt = 'd{d}') values ({n}, 'a')",
    "insert into {db}.p partition (dt) select k, v, concat('d', k % 4) from {db}.t",
    "insert into {db}.parts partition (dt) select k, v, concat('d', k % 4) from {db}.b",
    "update {db}.t set v = 'u{n}' where k % 3 = {d} % 3",
    "delete from {db}.b where k = {n}",
    "update {db}.p set v = 'u{n}' where k % 2 = 0",
    "delete from {db}.p where dt = 'd{d}' and k = {n}",
    "insert overwrite table {db}.lines select k, v from {db}.t",
    "insert overwrite table {db}.p partition (dt = 'd{d}') select k, v from {db}.t",
    "merge into {db}.t x using {db}.b y on x.k = y.k when matched then update set v = 'm'",
    "from {db}.t insert into {db}.b select k, v insert into {db}.p partition (dt = 'd{d}') select k, v",
    "truncate table {db}.p partition (dt = 'd{d}')",
    "alter table {db}.p drop partition (dt = 'd{d}')",
)
ABORTED: Final = (
    "insert into {db}.t values (666, 'never')",
    "insert into {db}.p partition (dt = 'd{d}') values (666, 'never')",
    "insert into {db}.lines values (666, 'never')",
)
COMPACTIONS: Final = (
    "alter table {db}.t compact 'minor'",
    "alter table {db}.t compact 'major'",
    "alter table {db}.b compact 'minor'",
    "alter table {db}.b compact 'major'",
    "alter table {db}.p partition (dt = 'd{d}') compact 'minor'",
    "alter table {db}.p partition (dt = 'd{d}') compact 'major'",
)
NEVER: Final = "666"
COMPACTED_SHARE: Final = 0.2
ABORTED_SHARE: Final = 0.1


def fill(statement: str, db: str, random: Random) -> str:
    """Return a statement with its database and random numbers."""
    numbers = {name: random.randint(1, 30) for name in ("n", "m")}
    return statement.format(db=db, d=random.randint(0, 3), **numbers)


@dataclass
class Hive3Statements:
    """The statements of one writer. Their kind is their text."""

    db: str
    random: Random

    def choose(self) -> tuple[str, Statement]:
        """Return a random statement; conflicts, and partitions that do not exist, make some of them fail."""
        chance = self.random.random()
        is_aborted = chance < ABORTED_SHARE
        is_compaction = not is_aborted and chance < ABORTED_SHARE + COMPACTED_SHARE
        kind = self.random.choice(ABORTED if is_aborted else COMPACTIONS if is_compaction else STATEMENTS)
        return kind, Statement(fill(kind, self.db, self.random), is_rolled_back=is_aborted)
