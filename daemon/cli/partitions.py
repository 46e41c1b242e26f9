"""``tideline partitions list | filter | explain | count | names | check | load``.

Asks the running daemon; where none runs, the state it left is opened. ``check`` and ``load`` work on the machine and as the user
of the daemon.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from daemon.cli.options import config_option, echo_json, json_option


if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from daemon.service.catalog_access import Access


CHECK_ATTEMPTS: Final = 10
PAUSE_S: Final = 0.5
source_option = click.option("--source", help="Name of the source, where several have the table.")
url_option = click.option(
    "--url", help="Address of the daemon, such as http://host:8470 (else from the configuration)."
)
dialect_option = click.option(
    "--dialect", type=click.Choice(["hive2", "hive4"]), default="hive4", help="Filter language (hive4)."
)
most_option = click.option("--max", "most", type=int, help="Give the first partitions by name only.")


@click.group()
def partitions() -> None:
    """Ask the partition index, explain its answers, load and check it."""


@partitions.command("list")
@source_option
@url_option
@config_option
@json_option
def list_tables(source: str | None, url: str | None, config_path: Path | None, as_json: bool) -> None:
    """List the tables of the index."""
    from daemon.partition_text import listing_text

    with _access(config_path, url) as access:
        _echo(access.partitions.listing(source=source), as_json, listing_text)


@partitions.command("filter")
@click.argument("table")
@click.argument("text", metavar="FILTER", default="")
@most_option
@click.option("--names", is_flag=True, help="Names only.")
@dialect_option
@source_option
@url_option
@config_option
@json_option
def filter_table(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    table: str,
    text: str,
    most: int | None,
    names: bool,
    dialect: str,
    source: str | None,
    url: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Show the partitions of TABLE (db.table) that FILTER matches, such as "ds >= '2024-05-01' and hr = 5"."""
    from daemon.partition_text import filter_text
    from daemon.partitions import FilterQuestion

    asked = FilterQuestion(
        table=table.lower(), filter=text, most=most, names=names, dialect=dialect, source=source
    )
    with _access(config_path, url) as access:
        _echo(access.partitions.filter(asked), as_json, filter_text)


@partitions.command()
@click.argument("table")
@click.argument("text", metavar="FILTER", default="")
@dialect_option
@source_option
@url_option
@config_option
@json_option
def count(
    table: str,
    text: str,
    dialect: str,
    source: str | None,
    url: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Count the partitions of TABLE that FILTER matches."""
    from daemon.partition_text import count_text
    from daemon.partitions import FilterQuestion

    asked = FilterQuestion(table=table.lower(), filter=text, dialect=dialect, source=source)
    with _access(config_path, url) as access:
        _echo(access.partitions.count(asked), as_json, count_text)


@partitions.command()
@click.argument("table")
@click.argument("text", metavar="FILTER", default="")
@dialect_option
@source_option
@url_option
@config_option
@json_option
def explain(
    table: str,
    text: str,
    dialect: str,
    source: str | None,
    url: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Show how FILTER is answered: ranges, what is checked on every key, and what it cost."""
    from daemon.partition_text import explain_text
    from daemon.partitions import FilterQuestion

    asked = FilterQuestion(table=table.lower(), filter=text, dialect=dialect, source=source)
    with _access(config_path, url) as access:
        _echo(access.partitions.explain(asked), as_json, explain_text)


@partitions.command()
@click.argument("table")
@click.argument("values", nargs=-1)
@most_option
@source_option
@url_option
@config_option
@json_option
def names(
    table: str,
    values: tuple[str, ...],
    most: int | None,
    source: str | None,
    url: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Show the names of TABLE's partitions with VALUES, in the order of its columns; "" is any value."""
    from daemon.partition_text import filter_text

    with _access(config_path, url) as access:
        _echo(access.partitions.names_ps(table.lower(), values, most, source=source), as_json, filter_text)


@partitions.command()
@click.argument("tables", nargs=-1)
@click.option("--repair", is_flag=True, help="Load again what differs.")
@source_option
@config_option
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    tables: tuple[str, ...],
    repair: bool,
    source: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Compare TABLES (or all) with the source's metastore, every field; exit with 1 where anything differs."""
    from daemon.partition_text import check_text

    with _access(config_path, None) as access:
        found = [_checked(access, told, table) for table, told in _named(access, tables, source)]
        differing = [one for one in found if one["drift"]]
        if as_json:
            echo_json(found)
        else:
            click.echo("\n".join(check_text(one) for one in found) or "no table is indexed")
        if repair:
            ended = [_loaded(access, source, one["table"], quiet=as_json) for one in differing]
            ctx.exit(0 if all(ended) else 1)
    ctx.exit(1 if differing else 0)


@partitions.command()
@click.argument("table")
@source_option
@config_option
@click.pass_context
def load(ctx: click.Context, table: str, source: str | None, config_path: Path | None) -> None:
    """Load TABLE again from the source's metastore and show how far it is; ends its quarantine.

    Answers from before stand until it has ended. It goes on in the daemon when this command is interrupted.
    """
    with _access(config_path, None) as access:
        ctx.exit(0 if _loaded(access, source, table.lower(), quiet=False) else 1)


def _loaded(access: Access, source: str | None, table: str, *, quiet: bool) -> bool:
    """Have a table loaded and wait for the end; False where it ended in quarantine or the table is gone."""
    from daemon.partition_text import progress_text

    access.do(source, {"do": "load-partitions", "table": table})
    shown = ""
    while True:
        if access.live:
            time.sleep(PAUSE_S)
        else:
            access.do(source, {"do": "load-some"})
        found = [
            row
            for row in access.partitions.listing(source=source, prefix=table)["tables"]
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


def _access(config_path: Path | None, url: str | None) -> AbstractContextManager[Access]:
    from daemon.config import find_file, load_config
    from daemon.service.catalog_access import catalog_access

    return catalog_access(load_config(find_file(config_path)), url)


def _named(access: Access, tables: tuple[str, ...], source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of what is to be checked."""
    if tables:
        return [(table.lower(), source) for table in tables]
    rows = access.partitions.listing(source=source)["tables"]
    return [(row["table"], row["source"]) for row in rows if row["partitions"] is not None]


def _checked(access: Access, source: str | None, table: str) -> dict[str, Any]:
    """Check one table; again, while it differs and the daemon is behind or the source moves."""
    for attempt in range(CHECK_ATTEMPTS):
        found = access.do(source, {"do": "check-partitions", "table": table})
        settled = not found["drift"] or not found["moving"] or not access.live
        if settled or attempt == CHECK_ATTEMPTS - 1:
            break
        time.sleep(PAUSE_S)
    return found


def _echo(answer: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    if as_json:
        echo_json(answer)
    else:
        click.echo(text(answer))
