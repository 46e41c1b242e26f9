"""Random statements that change rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders.replication.random_tables import Statement


if TYPE_CHECKING:
    from tests.builders.replication.random_tables import Table, Writing


def insert(w: Writing, table: Table) -> Statement:
    dt = ", dt" if table.is_partitioned else ""
    return Statement(f"insert into {w.of(table)} (id, v{dt}) values {w.rows(table)}")


def roll_back(w: Writing, table: Table) -> Statement:
    return Statement(insert(w, table).sql, is_rolled_back=True)


def roll_back_overwrite(w: Writing, table: Table) -> Statement:
    return Statement(overwrite(w, table).sql, is_rolled_back=True)


def fail(w: Writing, table: Table) -> Statement:
    dt, columns = (", 'a'", "id, v, dt") if table.is_partitioned else ("", "id, v")
    name = w.of(table)
    return Statement(
        f"insert into {name} ({columns}) select id, cast(assert_true(id < 0) as string){dt} from {name}"
    )


def update(w: Writing, table: Table) -> Statement:
    n = w.random.randint(2, 5)
    return Statement(f"update {w.of(table)} set v = 'u{w.number()}' where id % {n} = 0")


def delete(w: Writing, table: Table) -> Statement:
    where = f" where id % 7 = {w.random.randrange(7)}" if w.happens(0.9) else ""
    return Statement(f"delete from {w.of(table)}{where}")


def merge(w: Writing, table: Table) -> Statement:
    """Update and delete some rows, or insert one if there are none."""
    n, names, given = w.number(), "id, v", f"select {w.number()} as id, 'merged' as v"
    if table.is_partitioned:
        names, given = f"{names}, dt", f"{given}, '{w.value()}' as dt"
    values = ", ".join(f"s.{name}" for name in names.split(", "))
    return Statement(
        f"merge into {w.of(table)} t using ({given}) s on t.id % {w.random.randint(3, 9)} = 1 "
        f"when matched and t.id % 2 = 0 then delete when matched then update set v = 'm{n}' "
        f"when not matched then insert ({names}) values ({values})"
    )


def rewrite(w: Writing, table: Table) -> Statement:
    """Overwrite every partition that keeps a row."""
    return Statement(f"insert overwrite table {w.of(table)} select * from {w.of(table)} where id % 5 > 0")


def overwrite(w: Writing, table: Table) -> Statement:
    into = f" {w.into(table)}" if table.is_partitioned else ""
    return Statement(f"insert overwrite table {w.of(table)}{into} select {w.number()}, 'over'{table.extra}")


def overwrite_with_nothing(w: Writing, table: Table) -> Statement:
    """Overwrite a table or a partition, perhaps a new one, with no row."""
    name = w.of(table)
    return Statement(
        f"insert overwrite table {name} {w.into(table)} select id, v{table.extra} from {name} where id < 0"
    )


def union(w: Writing, table: Table) -> Statement:
    """Write the branches of a union, of which some engines make directories of their own."""
    what, n = w.random.choice(("into", "overwrite")), w.number()
    rows = f"select {n}, 'left'{table.extra} union all select {n}, 'right'{table.extra}"
    return Statement(f"insert {what} table {w.of(table)} {w.into(table)} select * from ({rows}) s")


def several(w: Writing, table: Table) -> Statement:
    """Insert into two static partitions by one statement, of which Hive logs one."""
    first, second = w.values()
    n = w.number()
    into = f"insert into {w.of(table)} partition (dt='{{}}') select s.n, 'm'{table.extra}"
    return Statement(
        f"from (select {n} as n union all select {n} + 1) s {into.format(first)} where s.n = {n} "
        f"{into.format(second)} where s.n > {n}"
    )


def two_tables(w: Writing, table: Table) -> Statement:
    """Insert into two tables by one transaction."""
    other, n = w.random.choice(w.tables.listed() or [table]), w.number()
    inserts = [
        f"insert into {w.of(each)} select s.n, 'two'{each.extra}"
        + (f", '{w.value()}'" if each.is_partitioned else "")
        for each in (table, other)
    ]
    return Statement(f"from (select {n} as n union all select {n} + 1) s {' '.join(inserts)}")


def load(w: Writing, table: Table) -> Statement:
    """Load a file that was written elsewhere; into transactional tables without the columns of their rows' ids."""
    directory, what = w.new_directory(), w.random.choice(("", "overwrite "))
    stored = "textfile" if table.kind == "insert-only" else "orc"
    return Statement(
        f"load data inpath '{directory}' {what}into table {w.of(table)} {w.into(table)}",
        before=(
            f"insert overwrite directory '{directory}' stored as {stored} select {w.number()}, 'loaded'{table.extra}",
        ),
    )


def truncate(w: Writing, table: Table) -> Statement:
    where = f" {w.partition()}" if table.is_partitioned and w.happens() else ""
    return Statement(f"truncate table {w.of(table)}{where}")
