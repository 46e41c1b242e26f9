"""``tideline timeline show | cover | latest | migrate | rebuild | check``.

Asks the running daemon; where none runs, the state it left is opened. ``migrate``, ``rebuild`` and ``check`` work on the machine
and as the user of the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from daemon.catalog.command_options import acts, asks, checked
from daemon.terminal.options import echo_json
from daemon.timelines.capability import Timelines


if TYPE_CHECKING:
    from daemon.catalog.access import Access
    from daemon.catalog.command_options import Asking


_PERIOD: Final = "Update period, such as DAILY."
column_option = click.option("--column", help="Time column; needed where the table has several.")


@click.group()
def timeline() -> None:
    """Show which partitions exist, cover ranges of time, and look after timelines."""


@timeline.command()
@click.argument("table", required=False)
@asks
def show(table: str | None, asking: Asking) -> None:
    """Show the timelines of TABLE (db.table) with runs and holes, or list all tables."""
    from daemon.timelines.text import listing_text, show_text

    with asking.access(Timelines()) as access:
        if table is None:
            asking.echo(access.answers.listing(source=asking.source), listing_text)
        else:
            asking.echo(access.answers.show(table.lower(), source=asking.source), show_text)


@timeline.command()
@click.argument("name")
@column_option
@asks
def latest(name: str, column: str | None, asking: Asking) -> None:
    """Show the latest partition of NAME, a table (db.table) or a fact."""
    from daemon.timelines.text import latest_text

    with asking.access(Timelines()) as access:
        asking.echo(access.answers.latest(name.lower(), source=asking.source, column=column), latest_text)


@timeline.command()
@click.argument("name")
@click.argument("start")
@click.argument("end")
@click.option("--period", "periods", multiple=True, help="Use only this update period; may be repeated.")
@click.option("--strict", is_flag=True, help="Fail where anything is missing.")
@click.option("--min-count", is_flag=True, help="The fewest partitions, where weeks stand beside months.")
@click.option("--where", type=click.Choice(["or", "in", "between"]), help="Print the condition as SQL.")
@click.option("--alias", default="", help="Alias of the table in the condition.")
@column_option
@asks
def cover(asking: Asking, name: str, **wanted: Any) -> None:
    """Show which partitions cover [START, END) of NAME, a table (db.table) or a fact, and what is missing.

    START and END are partition values such as 2015-01-29-06 or ISO 8601 moments, in UTC.
    """
    from daemon.timelines.answers import CoverQuestion
    from daemon.timelines.text import cover_text

    question = CoverQuestion(name=name.lower(), source=asking.source, **wanted)
    with asking.access(Timelines()) as access:
        asking.echo(access.answers.cover(question), cover_text)


@timeline.command()
@click.argument("table")
@click.option("--column", required=True, help="Time column.")
@click.option("--period", required=True, help=_PERIOD)
@click.option("--to", "form", required=True, help="Storage form: ends-and-holes, ranges, store-all.")
@acts
def migrate(table: str, column: str, period: str, form: str, asking: Asking) -> None:
    """Change the storage form of one timeline of TABLE in its table properties, by one alter_table and without a reload."""
    request = {"do": "migrate", "table": table.lower(), "column": column, "period": period, "to": form}
    with asking.access(Timelines()) as access:
        asking.echo(access.do(asking.source, request), _migrated_text)


@timeline.command()
@click.argument("table")
@acts
def rebuild(table: str, asking: Asking) -> None:
    """Load the timelines of TABLE again from its partitions; ends its quarantine."""
    with asking.access(Timelines()) as access:
        done = access.do(asking.source, {"do": "rebuild", "table": table.lower()})
        asking.echo(done, lambda d: f"{d['table']} is loaded again: {d['timelines']} timelines")


@timeline.command()
@click.argument("tables", nargs=-1)
@acts
@click.pass_context
def check(ctx: click.Context, tables: tuple[str, ...], asking: Asking) -> None:
    """Compare TABLES (or all) with the source's metastore; exit with 1 where anything differs."""
    from daemon.timelines.text import check_text

    with asking.access(Timelines()) as access:
        named = [(table.lower(), asking.source) for table in tables] or _followed(access, asking.source)
        found = [checked(access, source, {"do": "check", "table": table}) for table, source in named]
    if asking.as_json:
        echo_json(found)
    else:
        click.echo("\n".join(check_text(one) for one in found) or "no table has timelines")
    ctx.exit(1 if any(one["drift"] for one in found) else 0)


def _followed(access: Access[Any], source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of all that is followed."""
    return [(row["table"], row["source"]) for row in access.answers.listing(source=source)["tables"]]


def _migrated_text(done: dict[str, Any]) -> str:
    what = f"{done['table']} {done['column']} {done['period']}"
    if not done["written"]:
        return f"{what} stands as {done['after']} already"
    return f"{what} is written as {done['after']} (was {done['before']})"
