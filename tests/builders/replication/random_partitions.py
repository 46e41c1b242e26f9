"""Random statements that change partitions."""

from __future__ import annotations

import re

from tests.builders.replication.random_tables import Statement, Table, Writing


def add(w: Writing, table: Table) -> Statement:
    """Add an empty partition; to an external table, half of the time outside of the table's directory."""
    where = f" location '{w.new_directory()}'" if table.kind == "external" and w.happens() else ""
    return Statement(f"alter table {w.of(table)} add if not exists {w.partition(table)}{where}")


def drop(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} drop if exists {w.known_some(table)}")


def drop_many(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} drop if exists partition (dt < {w.literal('dt')})")


def rename(w: Writing, table: Table) -> Statement:
    old, new = w.known_and_new(table)
    return Statement(f"alter table {w.of(table)} {old} rename to {new}")


def swap(w: Writing, table: Table) -> Statement:
    """Give two partitions each other's values."""
    first, second = w.two_known(table)
    between, name = re.sub("dt='.*'", f"dt='between {w.number()}'", first), f"alter table {w.of(table)}"
    return Statement(
        f"{name} {between} rename to {second}",
        before=(f"{name} {first} rename to {between}", f"{name} {second} rename to {first}"),
    )


def exchange(w: Writing, table: Table) -> Statement:
    """Move a partition from another plain table; Hive requires equal columns. Without such a table, one is
    made for it."""
    others = [
        each
        for each in w.tables.listed()
        if each.kind == "plain"
        and each.name != table.name
        and (each.keys, each.columns) == (table.keys, table.columns)
    ]
    if others and w.happens():
        other = w.random.choice(others)
        return Statement(f"alter table {w.of(table)} exchange {w.known_some(other)} with table {w.of(other)}")
    staging, new = f"{w.db}.staging_{w.number()}", w.partition(table)
    return Statement(
        f"drop table {staging}",
        before=(
            f"create table {staging} like {w.of(table)}",
            f"insert into {staging} {new} select {w.number()}, 'exchanged'{table.extra}",
            f"alter table {w.of(table)} drop if exists {new}",
            f"alter table {w.of(table)} exchange {new} with table {staging}",
        ),
    )


def move(w: Writing, table: Table) -> Statement:
    """Give a partition an empty directory outside of the table's."""
    return Statement(f"alter table {w.of(table)} {w.known(table)} set location '{w.new_directory()}'")


def repair(w: Writing, table: Table) -> Statement:
    """Add partitions for directories that a drop of an external table's partitions has left."""
    what = w.random.choice(("", " sync partitions"))
    return Statement(f"msck repair table {w.of(table)}{what}")


def change_columns(w: Writing, table: Table) -> Statement:
    """Change the columns of one partition only."""
    return Statement(
        f"alter table {w.of(table)} {w.known(table)} change column v v string comment 'c{w.number()}'"
    )


def analyze(w: Writing, table: Table) -> Statement:
    what = w.random.choice(("", " for columns", " noscan"))
    return Statement(f"analyze table {w.of(table)} {w.known(table)} compute statistics{what}")
