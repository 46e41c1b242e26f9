"""Random statements that change rows."""

from __future__ import annotations

from tests.builders.replication.random_tables import Statement, Table, Writing


def insert(w: Writing, table: Table) -> Statement:
    return Statement(f"insert into {w.of(table)} ({table.names}) values {w.rows(table)}")


def roll_back(w: Writing, table: Table) -> Statement:
    return Statement(insert(w, table).sql, is_rolled_back=True)


def roll_back_overwrite(w: Writing, table: Table) -> Statement:
    return Statement(overwrite(w, table).sql, is_rolled_back=True)


def fail(w: Writing, table: Table) -> Statement:
    name = w.of(table)
    return Statement(
        f"insert into {name} ({table.names}) select id, cast(assert_true(id < 0) as "
        f"string){w.literals(table)} from {name}"
    )


def update(w: Writing, table: Table) -> Statement:
    n = w.random.randint(2, 5)
    return Statement(f"update {w.of(table)} set v = 'u{w.number()}' where id % {n} = 0")


def delete(w: Writing, table: Table) -> Statement:
    where = f" where id % 7 = {w.random.randrange(7)}" if w.happens(0.9) else ""
    return Statement(f"delete from {w.of(table)}{where}")


def merge(w: Writing, table: Table) -> Statement:
    """Update and delete some rows, or insert one if there are none."""
    n, keys = w.number(), "".join(f", {w.literal(key)} as {key}" for key in table.keys)
    given = f"select {w.number()} as id, 'merged' as v{keys}"
    values = ", ".join(f"s.{name}" for name in table.names.split(", "))
    return Statement(
        f"merge into {w.of(table)} t using ({given}) s on t.id % {w.random.randint(3, 9)} = 1 "
        f"when matched and t.id % 2 = 0 then delete when matched then update set v = 'm{n}' "
        f"when not matched then insert ({table.names}) values ({values})"
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
    first, second = w.two_written(table)
    n, into = w.number(), f"insert into {w.of(table)}"
    return Statement(
        f"from (select {n} as n union all select {n} + 1) s {into} {first} select s.n, 'm'{table.extra} "
        f"where s.n = {n} {into} {second} select s.n, 'm'{table.extra} where s.n > {n}"
    )


def mixed(w: Writing, table: Table) -> Statement:
    """Write partitions of which only the first partition column is given by the statement."""
    what, static = w.random.choice(("into", "overwrite")), f"n={w.literal('n')}"
    rows = " union all ".join(
        f"select {w.number()}, 'mixed'{table.extra}, {w.literal('dt')}" for _ in range(w.random.randint(1, 3))
    )
    return Statement(f"insert {what} table {w.of(table)} partition ({static}, dt) select * from ({rows}) s")


def two_tables(w: Writing, table: Table) -> Statement:
    """Insert into two tables by one transaction."""
    other, n = w.random.choice(w.tables.listed() or [table]), w.number()
    inserts = [
        f"insert into {w.of(each)} select s.n, 'two'{each.extra}{w.literals(each)}" for each in (table, other)
    ]
    return Statement(f"from (select {n} as n union all select {n} + 1) s {' '.join(inserts)}")


def two_databases(w: Writing, table: Table) -> Statement:
    """Insert by one transaction into a table and into one that no policy replicates."""
    n, other = w.number(), f"{w.elsewhere}.noted"
    return Statement(
        f"from (select {n} as n union all select {n} + 1) s insert into {other} select s.n "
        f"insert into {w.of(table)} select s.n, 'noted'{table.extra}{w.literals(table)}"
    )


def load(w: Writing, table: Table) -> Statement:
    """Load a file that was written elsewhere; into transactional tables without the columns of their rows'
    ids."""
    directory, what = w.new_directory(), w.random.choice(("", "overwrite "))
    stored = "textfile" if table.kind == "insert-only" else "orc"
    return Statement(
        f"load data inpath '{directory}' {what}into table {w.of(table)} {w.into(table)}",
        before=(
            (
                f"insert overwrite directory '{directory}' stored as {stored} select {w.number()}, "
                f"'loaded'{table.extra}"
            ),
        ),
    )


def truncate(w: Writing, table: Table) -> Statement:
    where = f" {w.known_some(table)}" if table.is_partitioned and w.happens() else ""
    return Statement(f"truncate table {w.of(table)}{where}")
