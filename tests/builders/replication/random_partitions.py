"""Random statements that change partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders.replication.random_tables import Statement


if TYPE_CHECKING:
    from tests.builders.replication.random_tables import Table, Writing


def add(w: Writing, table: Table) -> Statement:
    """Add an empty partition; to an external table, half of the time outside of the table's directory."""
    where = f" location '{w.new_directory()}'" if table.kind == "external" and w.happens() else ""
    return Statement(f"alter table {w.of(table)} add if not exists {w.partition()}{where}")


def drop(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} drop if exists {w.partition()}")


def drop_many(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} drop if exists partition (dt < '{w.value()}')")


def rename(w: Writing, table: Table) -> Statement:
    old, new = w.values()
    return Statement(f"alter table {w.of(table)} partition (dt='{old}') rename to partition (dt='{new}')")


def swap(w: Writing, table: Table) -> Statement:
    """Give two partitions each other's values."""
    name, (first, second) = w.of(table), w.values()
    between, rename = (
        f"between {w.number()}",
        "alter table {} partition (dt='{}') rename to partition (dt='{}')",
    )
    return Statement(
        rename.format(name, between, second),
        before=(rename.format(name, first, between), rename.format(name, second, first)),
    )


def exchange(w: Writing, table: Table) -> Statement:
    """Move a partition to another plain table; Hive requires equal columns."""
    others = [
        each
        for each in w.tables.listed()
        if each.is_partitioned and each.kind == "plain" and each.columns == table.columns
    ]
    other = w.random.choice(others or [table])
    return Statement(f"alter table {w.of(table)} exchange {w.partition()} with table {w.of(other)}")


def move(w: Writing, table: Table) -> Statement:
    """Give a partition an empty directory outside of the table's."""
    return Statement(f"alter table {w.of(table)} {w.partition()} set location '{w.new_directory()}'")


def repair(w: Writing, table: Table) -> Statement:
    """Add partitions for directories that a drop of an external table's partitions has left."""
    what = w.random.choice(("", " sync partitions"))
    return Statement(f"msck repair table {w.of(table)}{what}")


def change_columns(w: Writing, table: Table) -> Statement:
    """Change the columns of one partition only."""
    return Statement(
        f"alter table {w.of(table)} {w.partition()} change column v v string comment 'c{w.number()}'"
    )


def analyze(w: Writing, table: Table) -> Statement:
    what = w.random.choice(("", " for columns", " noscan"))
    return Statement(f"analyze table {w.of(table)} {w.partition()} compute statistics{what}")
