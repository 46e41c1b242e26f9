"""``tideline partitions list | filter | explain | count | names | check | load``.

Asks the running daemon; where none runs, the state it left is opened. ``check`` and ``load`` work on the machine and as the user
of the daemon.
"""

from __future__ import annotations

import time
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from daemon.catalog.command_options import PAUSE_S, acts, acts_in_words, asks, checked
from daemon.partitions.capability import Partitions
from daemon.terminal.options import echo_json


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.catalog.access import Access
    from daemon.catalog.command_options import Asking
    from daemon.partitions.answers import FilterQuestion


most_option = click.option("--max", "most", type=int, help="Give the first partitions by name only.")


def asks_with_filter(command: Callable[..., None]) -> Callable[..., None]:
    """``TABLE [FILTER] --dialect``, with further options on the answer, passed as ``question``; and ``asking``."""

    @click.argument("table")
    @click.argument("text", metavar="FILTER", default="")
    @click.option(
        "--dialect", type=click.Choice(["hive2", "hive4"]), default="hive4", help="Filter language (hive4)."
    )
    @asks
    @wraps(command)
    def asked(*, table: str, text: str, dialect: str, asking: Asking, **wanted: Any) -> None:
        from daemon.partitions.answers import FilterQuestion

        question = FilterQuestion(
            table=table.lower(), filter=text, dialect=dialect, source=asking.source, **wanted
        )
        command(question=question, asking=asking)

    return asked


@click.group()
def partitions() -> None:
    """Ask the partition index, explain its answers, load and check it."""


@partitions.command("list")
@asks
def list_tables(asking: Asking) -> None:
    """List the tables of the index."""
    from daemon.partitions.text import listing_text

    with asking.access(Partitions()) as access:
        asking.echo(access.answers.listing(source=asking.source), listing_text)


@partitions.command("filter")
@most_option
@click.option("--names", is_flag=True, help="Names only.")
@asks_with_filter
def filter_table(question: FilterQuestion, asking: Asking) -> None:
    """Show the partitions of TABLE (db.table) that FILTER matches, such as "ds >= '2024-05-01' and hr = 5"."""
    from daemon.partitions.text import filter_text

    with asking.access(Partitions()) as access:
        asking.echo(access.answers.filter(question), filter_text)


@partitions.command()
@asks_with_filter
def count(question: FilterQuestion, asking: Asking) -> None:
    """Count the partitions of TABLE that FILTER matches."""
    from daemon.partitions.text import count_text

    with asking.access(Partitions()) as access:
        asking.echo(access.answers.count(question), count_text)


@partitions.command()
@asks_with_filter
def explain(question: FilterQuestion, asking: Asking) -> None:
    """Show how FILTER is answered: ranges, what is checked on every key, and what it cost."""
    from daemon.partitions.text import explain_text

    with asking.access(Partitions()) as access:
        asking.echo(access.answers.explain(question), explain_text)


@partitions.command()
@click.argument("table")
@click.argument("values", nargs=-1)
@most_option
@asks
def names(table: str, values: tuple[str, ...], most: int | None, asking: Asking) -> None:
    """Show the names of TABLE's partitions with VALUES, in the order of its columns; "" is any value."""
    from daemon.partitions.text import filter_text

    with asking.access(Partitions()) as access:
        answer = access.answers.names_ps(table.lower(), values, most, source=asking.source)
        asking.echo(answer, filter_text)


@partitions.command()
@click.argument("tables", nargs=-1)
@click.option("--repair", is_flag=True, help="Load again what differs.")
@acts
@click.pass_context
def check(ctx: click.Context, tables: tuple[str, ...], repair: bool, asking: Asking) -> None:
    """Compare TABLES (or all) with the source's metastore, every field; exit with 1 where anything differs."""
    from daemon.partitions.text import check_text

    with asking.access(Partitions()) as access:
        named = [(table.lower(), asking.source) for table in tables] or _indexed(access, asking.source)
        found = [
            checked(access, source, {"do": "check-partitions", "table": table}) for table, source in named
        ]
        differing = [one for one in found if one["drift"]]
        if asking.as_json:
            echo_json(found)
        else:
            click.echo("\n".join(check_text(one) for one in found) or "no table is indexed")
        if repair:
            ended = [_loaded(access, asking.source, one["table"], quiet=asking.as_json) for one in differing]
            ctx.exit(0 if all(ended) else 1)
    ctx.exit(1 if differing else 0)


@partitions.command()
@click.argument("table")
@acts_in_words
@click.pass_context
def load(ctx: click.Context, table: str, asking: Asking) -> None:
    """Load TABLE again from the source's metastore and show how far it is; ends its quarantine.

    Answers from before stand until it has ended. It goes on in the daemon when this command is interrupted.
    """
    with asking.access(Partitions()) as access:
        ctx.exit(0 if _loaded(access, asking.source, table.lower(), quiet=False) else 1)


def _indexed(access: Access[Any], source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of all that is indexed, and not loaded for the first time."""
    rows = access.answers.listing(source=source)["tables"]
    return [(row["table"], row["source"]) for row in rows if row["partitions"] is not None]


def _loaded(access: Access[Any], source: str | None, table: str, *, quiet: bool) -> bool:
    """Have a table loaded and wait for the end; False where it ended in quarantine or the table is gone."""
    from daemon.partitions.text import progress_text

    access.do(source, {"do": "load-partitions", "table": table})
    shown = ""
    while True:
        if access.live:
            time.sleep(PAUSE_S)
        else:
            access.do(source, {"do": "load-some"})
        found = [
            row
            for row in access.answers.listing(source=source, prefix=table)["tables"]
            if row["table"] == table
        ]
        if not found or found[0]["state"] != "loading":
            break
        progress = progress_text(found[0])
        if progress != shown and not quiet:
            click.echo(f"{table}: {progress}", err=True)
        shown = progress
    state = found[0]["state"] if found else "not indexed"
    if not quiet:
        held = f", {found[0]['partitions']} partitions" if found else ""
        problem = (found[0]["problem"] or "") if found else ""
        click.echo(f"{table} is {state}{held}{': ' if problem else ''}{problem}")
    return state == "following"
