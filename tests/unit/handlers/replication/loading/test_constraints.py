"""Constraints of a loaded table: those that the target lacks are added, and foreign keys once both tables are
there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.replication.loading.table.load import load_constraints
from handlers.structs.constraints import (
    CONSTRAINT_KINDS,
    FOREIGN_KEY,
    PRIMARY_KEY,
    ConstraintKind,
    SQLForeignKey,
    SQLPrimaryKey,
)
from state.errors import InvalidRequest, NotFound


class Catalog:
    """The tables of one database and their constraints."""

    def __init__(self, tables: Iterable[str], *columns: Any) -> None:
        self.tables = set(tables)
        self.columns: list[tuple[ConstraintKind[Any], Any]] = [
            (PRIMARY_KEY if isinstance(column, SQLPrimaryKey) else FOREIGN_KEY, column) for column in columns
        ]
        self.refuses_foreign_keys = False

    def get_table(self, _db: str, name: str) -> object:
        if name not in self.tables:
            raise NotFound("no such table", table=name)
        return object()

    def constraints(self, kind: ConstraintKind[Any], _db: str, table: str) -> list[Any]:
        owner = "fktable_name" if kind is FOREIGN_KEY else "table_name"
        return [
            deepcopy(column)
            for each, column in self.columns
            if each is kind and getattr(column, owner) == table
        ]

    def foreign_keys_to(self, _db: str, table: str) -> list[Any]:
        return [
            column for kind, column in self.columns if kind is FOREIGN_KEY and column.pktable_name == table
        ]

    def constraint_names(self, db: str, table: str) -> set[str]:
        return {
            kind.name_of(column) or ""
            for kind in CONSTRAINT_KINDS
            for column in self.constraints(kind, db, table)
        }

    def add_constraint(self, kind: ConstraintKind[Any], columns: Sequence[Any]) -> None:
        if kind is FOREIGN_KEY and self.refuses_foreign_keys:
            raise InvalidRequest("the name is taken")
        self.columns += [(kind, column) for column in columns]

    def names(self) -> list[str | None]:
        return [kind.name_of(column) for kind, column in self.columns]


def primary(table: str, *columns: str, db: str = "shop") -> list[SQLPrimaryKey]:
    return [
        SQLPrimaryKey(table_db=db, table_name=table, column_name=column, pk_name=f"PK_{table}")
        for column in columns
    ]


def foreign(table: str, to: str, db: str = "shop") -> SQLForeignKey:
    return SQLForeignKey(
        pktable_db=db, pktable_name=to, fktable_db="shop", fktable_name=table, fk_name=f"FK_{table}_{to}"
    )


SOURCE = Catalog(
    ["orders", "lines"], *primary("orders", "a", "b"), *primary("lines", "n"), foreign("lines", "orders")
)


def load(table: str, source: Catalog, target: Catalog) -> None:
    def covers(db: str, name: str) -> bool:
        return db == "shop" and not name.startswith("tmp")

    policy = SimpleNamespace(source_db="shop", target_db="copy", covers=covers)
    tools: Any = SimpleNamespace(source=source, target=target, policy=policy)
    load_constraints(table, tools)


@pytest.mark.parametrize("order", [("orders", "lines"), ("lines", "orders")])
def test_all_constraints_arrive_whichever_table_is_loaded_first(order: tuple[str, str]) -> None:
    target = Catalog([])
    for table in order:
        target.tables.add(table)
        load(table, SOURCE, target)
    assert sorted(filter(None, target.names())) == ["FK_lines_orders", "PK_lines", "PK_orders", "PK_orders"]
    for kind, column in target.columns:
        assert (column.pktable_db if kind is FOREIGN_KEY else column.table_db) == "copy"


def test_a_constraint_that_the_target_has_is_not_added_again_whatever_the_case_of_its_name() -> None:
    target = Catalog(["orders"], *primary("orders", "a", "b", db="copy"))
    for _, column in target.columns:
        column.pk_name = "pk_ORDERS"
    load("orders", SOURCE, target)
    assert target.names() == ["pk_ORDERS"] * 2


def test_a_foreign_key_to_a_table_that_is_not_there_or_not_covered_is_left_out() -> None:
    target = Catalog(["lines"])
    load("lines", SOURCE, target)
    assert target.names() == ["PK_lines"]
    source = Catalog(["lines", "tmp1"], foreign("lines", "tmp1"), foreign("lines", "x", db="other"))
    target = Catalog(["lines", "tmp1"], *primary("tmp1", "a", db="copy"))
    load("lines", source, target)
    assert target.names() == ["PK_tmp1"]


def test_a_foreign_key_that_the_load_of_the_other_table_adds_at_the_same_time_is_no_error() -> None:
    target = Catalog(["orders", "lines"], *primary("orders", "a", db="copy"))
    target.refuses_foreign_keys = True
    load("lines", SOURCE, target)
    assert target.names() == ["PK_orders", "PK_lines"]
