"""Random statements that create, change and drop tables, and change their database."""

from __future__ import annotations

from dataclasses import replace

from tests.builders.replication.random_tables import KEYS, KINDS, Statement, Table, Writing


def create(w: Writing) -> Statement:
    keys = w.random.choice(((), ("dt",), ("dt",), ("n", "dt")))
    table = w.named(Table("", w.random.choice(list(KINDS)), keys))
    columns = ", ".join(f"{key} {KEYS[key]}" for key in keys)
    by = f"partitioned by ({columns}) " if keys else ""
    what = "external table" if table.kind == "external" else "table"
    sql = f"create {what} {w.of(table)} (id int, v string) {by}{KINDS[table.kind]}"
    return Statement(sql, lambda: w.tables.replace(table.name, table))


def copy(w: Writing, table: Table) -> Statement:
    """Create a table of any kind from the rows of another."""
    kind = w.random.choice([each for each in KINDS if each != "bucketed"])
    new = w.named(Table("", kind, table.keys if w.happens(0.7) else (), written=table.written[:]))
    by = f"partitioned by ({', '.join(new.keys)}) " if new.is_partitioned else ""
    what = "external table" if kind == "external" else "table"
    sql = f"create {what} {w.of(new)} {by}{KINDS[kind]} as select {new.names} from {w.of(table)}"
    return Statement(sql, lambda: w.tables.replace(new.name, new))


def create_like(w: Writing, table: Table) -> Statement:
    new = replace(w.named(table), written=[])
    what = "external table" if table.kind == "external" else "table"
    sql = f"create {what} {w.of(new)} like {w.of(table)}"
    return Statement(sql, lambda: w.tables.replace(new.name, new))


def rename(w: Writing, table: Table) -> Statement:
    new = w.named(table)
    sql = f"alter table {w.of(table)} rename to {w.of(new)}"
    return Statement(sql, lambda: w.tables.replace(table.name, new))


def roll_back_rename(w: Writing, table: Table) -> Statement:
    """Rename a table in a transaction that aborts: the rename remains, as after a kill of the SQL engine
    before the commit."""
    return replace(rename(w, table), is_rolled_back=True)


def swap(w: Writing, table: Table) -> Statement:
    """Give two tables each other's names, as those do who build a new version of a table beside the one in
    use."""
    others = [
        each
        for each in w.tables.listed()
        if each.name != table.name and table.may_have(each.name) and each.may_have(table.name)
    ]
    other, between = w.random.choice(others or [table]), f"{w.db}.between_{w.number()}"

    def record() -> None:
        w.tables.replace(table.name, other.renamed(table.name))
        w.tables.replace(other.name, table.renamed(other.name))

    return Statement(
        f"alter table {between} rename to {w.of(other)}",
        record,
        before=(
            f"alter table {w.of(table)} rename to {between}",
            f"alter table {w.of(other)} rename to {w.of(table)}",
        ),
    )


def leave(w: Writing, table: Table) -> Statement:
    """Rename a table into a database that no policy replicates;
    half of the time it returns, perhaps under another name.

    Hive refuses most of these, because the database is marked as replicated.
    """
    away = f"{w.elsewhere}.left_{w.number()}"
    out = f"alter table {w.of(table)} rename to {away}"
    if w.happens():
        return Statement(out, lambda: w.tables.leave(table))
    new = table.renamed(w.random.choice((table.name, w.new_name(table))))
    return Statement(
        f"alter table {away} rename to {w.of(new)}",
        lambda: w.tables.replace(table.name, new),
        before=(out, f"insert into {away} ({table.names}) values {w.rows(table)}"),
    )


def drop(w: Writing, table: Table) -> Statement:
    sql = f"drop table {w.of(table)}{w.random.choice(('', ' purge'))}"
    return Statement(sql, lambda: w.tables.replace(table.name, None))


def move(w: Writing, table: Table) -> Statement:
    """Give a table an empty directory."""
    return Statement(f"alter table {w.of(table)} set location '{w.new_directory()}'")


def add_column(w: Writing, table: Table) -> Statement:
    sql = f"alter table {w.of(table)} add columns (c{table.columns} string){_cascade(w, table)}"
    return Statement(sql, lambda: w.tables.replace(table.name, table.widen()))


def replace_columns(w: Writing, table: Table) -> Statement:
    """Give the whole list of columns, with one more or one less than before."""
    count = max(2, table.columns + w.random.choice((-1, 1)))
    added = "".join(f", c{number} string" for number in range(2, count))
    sql = f"alter table {w.of(table)} replace columns (id int, v string{added}){_cascade(w, table)}"
    return Statement(sql, lambda: w.tables.replace(table.name, replace(table, columns=count)))


def compact(w: Writing, table: Table) -> Statement:
    """Request a compaction; without a compactor at the source, it waits forever."""
    where = f" {w.known(table)}" if table.is_partitioned else ""
    return Statement(f"alter table {w.of(table)}{where} compact '{w.random.choice(('major', 'minor'))}'")


def change_column(w: Writing, table: Table) -> Statement:
    comment = w.random.choice((f"c{w.number()}", "é \\'quoted\\'"))
    return Statement(
        f"alter table {w.of(table)} change column v v string comment '{comment}'{_cascade(w, table)}"
    )


def _cascade(w: Writing, table: Table) -> str:
    return " cascade" if table.is_partitioned and w.happens(0.7) else ""


def constraint(w: Writing, table: Table) -> Statement:
    name = f"alter table {w.of(table)}"
    if w.happens():
        return Statement(f"{name} drop constraint key_{w.random.randrange(w.number())}")
    return Statement(f"{name} add constraint key_{w.number()} primary key (id) disable novalidate")


def own(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} set owner user u{w.number()}")


def set_property(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} set tblproperties ('note'='{w.number()} é')")


def unset_property(w: Writing, table: Table) -> Statement:
    return Statement(f"alter table {w.of(table)} unset tblproperties if exists ('note')")


def analyze(w: Writing, table: Table) -> Statement:
    return Statement(f"analyze table {w.of(table)} compute statistics for columns")


def view(w: Writing, table: Table) -> Statement:
    return Statement(f"create or replace view {w.db}.seen as select id from {w.of(table)}")


def change_database(w: Writing, table: Table) -> Statement:
    what = w.random.choice(
        (f"dbproperties ('last'='{table.kind} {w.number()}')", f"owner user u{w.number()}")
    )
    return Statement(f"alter database {w.db} set {what}")
