"""Random statements: tables of every kind with special names, and every statement that changes them.

Writers share their tables, so statements meet dropped and renamed tables, locks and conflicts, and fail. What
the writers believe about tables only makes most statements valid: both clusters are compared with each other,
never with this model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.builders.replication import random_changes as changes
from tests.builders.replication import random_partitions as partitions
from tests.builders.replication import random_rows as rows
from tests.builders.replication.random_tables import Statement, Table, Writing


TABLES_MAX: Final = 12
"""Live tables; at this number, tables are dropped instead of created."""


def _any(_: Table) -> bool:
    return True


def _acid(table: Table) -> bool:
    return table.is_acid


def _transactional(table: Table) -> bool:
    return table.is_transactional


def _without_transactions(table: Table) -> bool:
    return not table.is_transactional


def _unbucketed(table: Table) -> bool:
    return table.kind != "bucketed"


def _partitioned(table: Table) -> bool:
    return table.is_partitioned


def _by_two_columns(table: Table) -> bool:
    return len(table.keys) > 1


def _plain_partitioned(table: Table) -> bool:
    return table.is_partitioned and table.kind == "plain"


def _external_partitioned(table: Table) -> bool:
    return table.is_partitioned and table.kind == "external"


def _partitioned_without_transactions(table: Table) -> bool:
    return table.is_partitioned and not table.is_transactional


@dataclass(frozen=True)
class Kind:
    """One kind of statement: how often it is chosen, what makes it, and for which tables."""

    weight: int
    make: Callable[[Writing, Table], Statement]
    suits: Callable[[Table], bool] = _any


KINDS: Final[Mapping[str, Kind]] = {
    "insert": Kind(30, rows.insert),
    "update": Kind(8, rows.update, _acid),
    "delete": Kind(5, rows.delete, _acid),
    "merge": Kind(4, rows.merge, _acid),
    "overwrite": Kind(5, rows.overwrite),
    "overwrite_with_nothing": Kind(2, rows.overwrite_with_nothing),
    "rewrite": Kind(3, rows.rewrite),
    "several": Kind(5, rows.several, _partitioned),
    "mixed": Kind(4, rows.mixed, _by_two_columns),
    "union": Kind(2, rows.union),
    "roll_back": Kind(5, rows.roll_back),
    "roll_back_overwrite": Kind(2, rows.roll_back_overwrite, _transactional),
    "fail": Kind(2, rows.fail),
    "load": Kind(3, rows.load, _unbucketed),
    "truncate": Kind(3, rows.truncate),
    "two_tables": Kind(4, rows.two_tables),
    "two_databases": Kind(2, rows.two_databases),
    "copy": Kind(4, changes.copy),
    "create_like": Kind(2, changes.create_like),
    "rename": Kind(4, changes.rename),
    "roll_back_rename": Kind(1, changes.roll_back_rename, _transactional),
    "swap": Kind(3, changes.swap),
    "leave": Kind(1, changes.leave),
    "drop": Kind(3, changes.drop),
    "move": Kind(2, changes.move, _without_transactions),
    "add_column": Kind(2, changes.add_column),
    "change_column": Kind(3, changes.change_column),
    "replace_columns": Kind(2, changes.replace_columns),
    "compact": Kind(2, changes.compact, _transactional),
    "constraint": Kind(3, changes.constraint),
    "own": Kind(1, changes.own),
    "set_property": Kind(3, changes.set_property),
    "unset_property": Kind(1, changes.unset_property),
    "analyze": Kind(2, changes.analyze),
    "view": Kind(1, changes.view),
    "change_database": Kind(1, changes.change_database),
    "add_partition": Kind(4, partitions.add, _partitioned),
    "drop_partition": Kind(4, partitions.drop, _partitioned),
    "drop_partitions": Kind(2, partitions.drop_many, _partitioned),
    "rename_partition": Kind(3, partitions.rename, _partitioned),
    "swap_partitions": Kind(2, partitions.swap, _partitioned),
    "exchange": Kind(3, partitions.exchange, _plain_partitioned),
    "move_partition": Kind(2, partitions.move, _partitioned_without_transactions),
    "repair": Kind(2, partitions.repair, _external_partitioned),
    "change_columns_of_partition": Kind(2, partitions.change_columns, _partitioned),
    "analyze_partition": Kind(2, partitions.analyze, _partitioned),
}


@dataclass
class RandomStatements:
    """The statements of one writer."""

    writing: Writing

    def choose(self) -> tuple[str, Statement]:
        """Return a random statement that probably fits the present tables."""
        tables, random = self.writing.tables.listed(), self.writing.random
        if len(tables) < TABLES_MAX // 3 or (len(tables) < TABLES_MAX and self.writing.happens(0.1)):
            return "create", changes.create(self.writing)
        table = random.choice(tables)
        fitting = {name: kind for name, kind in KINDS.items() if kind.suits(table)}
        (name,) = random.choices(list(fitting), [kind.weight for kind in fitting.values()])
        return name, fitting[name].make(self.writing, table)
