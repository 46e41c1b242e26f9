"""``tideline timeline show | cover | latest | migrate | rebuild | check``.

Queries go to the running daemon; where none runs, the state that it left is opened. ``migrate``, ``rebuild`` and ``check`` run on
the machine and as the user of the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from daemon.catalog.command_options import change_options, check_table, query_options
from daemon.terminal.application import echo_json
from daemon.timelines.capability import Timelines
from daemon.timelines.queries import CoverRange, FindLatest, ListTables, ShowTable
from daemon.timelines.text import check_text, cover_text, latest_text, listing_text, show_text


if TYPE_CHECKING:
    from daemon.catalog.access import Access
    from daemon.catalog.command_options import CatalogOptions


_BRANCH: Final = Timelines()
_column_option = click.option("--column", help="Time column; required where the table has several.")


@click.group()
def timeline() -> None:
    """Show which partitions exist, cover ranges of time, and maintain timelines."""


@timeline.command()
@click.argument("table", required=False)
@query_options
def show(table: str | None, options: CatalogOptions) -> None:
    """Show the timelines of TABLE (db.table) with runs and holes, or list all tables."""
    if table is None:
        options.echo_answer(_BRANCH, ListTables(source=options.source), listing_text)
    else:
        options.echo_answer(_BRANCH, ShowTable(name=table.lower(), source=options.source), show_text)


@timeline.command()
@click.argument("name")
@_column_option
@query_options
def latest(name: str, column: str | None, options: CatalogOptions) -> None:
    """Show the latest partition of NAME, a table (db.table) or a fact."""
    query = FindLatest(name=name.lower(), source=options.source, column=column)
    options.echo_answer(_BRANCH, query, latest_text)


@timeline.command()
@click.argument("name")
@click.argument("start")
@click.argument("end")
@click.option("--period", "periods", multiple=True, help="Use only this update period; may be repeated.")
@click.option("--strict", is_flag=True, help="Fail where anything is missing.")
@click.option("--min-count", is_flag=True, help="Use the fewest partitions, where weeks and months overlap.")
@click.option("--where", type=click.Choice(["or", "in", "between"]), help="Print the condition as SQL.")
@click.option("--alias", default="", help="Alias of the table in the condition.")
@_column_option
@query_options
def cover(options: CatalogOptions, name: str, **parameters: Any) -> None:
    """Show which partitions cover [START, END) of NAME, a table (db.table) or a fact, and what is missing.

    START and END are partition values such as 2015-01-29-06 or ISO 8601 timestamps, in UTC.
    """
    query = CoverRange(name=name.lower(), source=options.source, **parameters)
    options.echo_answer(_BRANCH, query, cover_text)


@timeline.command()
@click.argument("table")
@click.option("--column", required=True, help="Time column.")
@click.option("--period", required=True, help="Update period, such as DAILY.")
@click.option("--to", "form", required=True, help="Storage form: ends-and-holes, ranges, store-all.")
@change_options
def migrate(table: str, column: str, period: str, form: str, options: CatalogOptions) -> None:
    """Change the storage form of one timeline of TABLE in its table properties, with one alter_table and without a reload."""
    request = {"do": "migrate", "table": table.lower(), "column": column, "period": period, "to": form}
    with options.access(_BRANCH) as access:
        options.echo(access.do(options.source, request), _migration_text)


@timeline.command()
@click.argument("table")
@change_options
def rebuild(table: str, options: CatalogOptions) -> None:
    """Load the timelines of TABLE again from its partitions; ends its quarantine."""
    with options.access(_BRANCH) as access:
        done = access.do(options.source, {"do": "rebuild", "table": table.lower()})
        options.echo(done, lambda d: f"{d['table']} is loaded again: {d['timelines']} timelines")


@timeline.command()
@click.argument("tables", nargs=-1)
@change_options
@click.pass_context
def check(ctx: click.Context, tables: tuple[str, ...], options: CatalogOptions) -> None:
    """Compare TABLES (or all) with the source's metastore; exit with 1 where anything differs."""
    with options.access(_BRANCH) as access:
        named = [(table.lower(), options.source) for table in tables] or _list(access, options.source)
        found = [check_table(access, source, {"do": "check", "table": table}) for table, source in named]
    if options.as_json:
        echo_json(found)
    else:
        click.echo("\n".join(check_text(one) for one in found) or "no table has timelines")
    ctx.exit(1 if any(one["drift"] for one in found) else 0)


def _list(access: Access, source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of all tables that have timelines."""
    return [
        (row["table"], row["source"]) for row in access.answers.answer(ListTables(source=source))["tables"]
    ]


def _migration_text(done: dict[str, Any]) -> str:
    timeline = f"{done['table']} {done['column']} {done['period']}"
    if not done["written"]:
        return f"{timeline} already has the form {done['after']}"
    return f"{timeline} now has the form {done['after']} (before: {done['before']})"
