"""``tideline timeline show | cover | latest | migrate | rebuild | check``.

Asks the running daemon; where none runs, the state it left is opened. ``migrate``, ``rebuild`` and ``check`` work on the machine
and as the user of the daemon.
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
CHECK_PAUSE_S: Final = 0.5
_PERIOD: Final = "Update period, such as DAILY."
source_option = click.option("--source", help="Name of the source, where several have the table.")
url_option = click.option(
    "--url", help="Address of the daemon, such as http://host:8470 (else from the configuration)."
)
column_option = click.option("--column", help="Time column; needed where the table has several.")


@click.group()
def timeline() -> None:
    """Show which partitions exist, cover ranges of time, and look after timelines."""


@timeline.command()
@click.argument("table", required=False)
@source_option
@url_option
@config_option
@json_option
def show(
    table: str | None, source: str | None, url: str | None, config_path: Path | None, as_json: bool
) -> None:
    """Show the timelines of TABLE (db.table) with runs and holes, or list all tables."""
    from daemon.timeline_text import listing_text, show_text

    with _access(config_path, url) as access:
        if table is None:
            _echo(access.answers.listing(source=source), as_json, listing_text)
        else:
            _echo(access.answers.show(table.lower(), source=source), as_json, show_text)


@timeline.command()
@click.argument("name")
@column_option
@source_option
@url_option
@config_option
@json_option
def latest(
    name: str,
    column: str | None,
    source: str | None,
    url: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Show the latest partition of NAME, a table (db.table) or a fact."""
    from daemon.timeline_text import latest_text

    with _access(config_path, url) as access:
        _echo(access.answers.latest(name.lower(), source=source, column=column), as_json, latest_text)


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
@source_option
@url_option
@config_option
@json_option
def cover(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    name: str,
    start: str,
    end: str,
    periods: tuple[str, ...],
    strict: bool,
    min_count: bool,
    where: str | None,
    alias: str,
    column: str | None,
    source: str | None,
    url: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Show which partitions cover [START, END) of NAME, a table (db.table) or a fact, and what is missing.

    START and END are partition values such as 2015-01-29-06 or ISO 8601 moments, in UTC.
    """
    from daemon.timeline_text import cover_text
    from daemon.timelines import CoverQuestion

    asked = CoverQuestion(
        name=name.lower(),
        start=start,
        end=end,
        source=source,
        column=column,
        periods=periods,
        strict=strict,
        min_count=min_count,
        where=where,
        alias=alias,
    )
    with _access(config_path, url) as access:
        _echo(access.answers.cover(asked), as_json, cover_text)


@timeline.command()
@click.argument("table")
@click.option("--column", required=True, help="Time column.")
@click.option("--period", required=True, help=_PERIOD)
@click.option("--to", "form", required=True, help="Storage form: ends-and-holes, ranges, store-all.")
@source_option
@config_option
@json_option
def migrate(
    table: str,
    column: str,
    period: str,
    form: str,
    source: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Change the storage form of one timeline of TABLE in its table properties, by one alter_table and without a reload."""
    request = {"do": "migrate", "table": table.lower(), "column": column, "period": period, "to": form}
    with _access(config_path, None) as access:
        _echo(access.do(source, request), as_json, _migrated_text)


@timeline.command()
@click.argument("table")
@source_option
@config_option
@json_option
def rebuild(table: str, source: str | None, config_path: Path | None, as_json: bool) -> None:
    """Load the timelines of TABLE again from its partitions; ends its quarantine."""
    with _access(config_path, None) as access:
        done = access.do(source, {"do": "rebuild", "table": table.lower()})
        _echo(done, as_json, lambda d: f"{d['table']} is loaded again: {d['timelines']} timelines")


@timeline.command()
@click.argument("tables", nargs=-1)
@source_option
@config_option
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    tables: tuple[str, ...],
    source: str | None,
    config_path: Path | None,
    as_json: bool,
) -> None:
    """Compare TABLES (or all) with the source's metastore; exit with 1 where anything differs."""
    from daemon.timeline_text import check_text

    with _access(config_path, None) as access:
        names = _sources(access, tables, source)
        found = [_checked(access, told, table) for table, told in names]
    if as_json:
        echo_json(found)
    else:
        click.echo("\n".join(check_text(one) for one in found) or "no table has timelines")
    ctx.exit(1 if any(one["drift"] for one in found) else 0)


def _access(config_path: Path | None, url: str | None) -> AbstractContextManager[Access]:
    from daemon.config import find_file, load_config
    from daemon.service.catalog_access import catalog_access

    return catalog_access(load_config(find_file(config_path)), url)


def _sources(access: Access, tables: tuple[str, ...], source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of what is to be checked."""
    if tables:
        return [(table.lower(), source) for table in tables]
    return [(row["table"], row["source"]) for row in access.answers.listing(source=source)["tables"]]


def _checked(access: Access, source: str | None, table: str) -> dict[str, Any]:
    """Check one table; again, while it differs and the daemon is behind or the source moves."""
    for attempt in range(CHECK_ATTEMPTS):
        found = access.do(source, {"do": "check", "table": table})
        settled = not found["drift"] or not found["moving"] or not access.live
        if settled or attempt == CHECK_ATTEMPTS - 1:
            break
        time.sleep(CHECK_PAUSE_S)
    return found


def _migrated_text(done: dict[str, Any]) -> str:
    what = f"{done['table']} {done['column']} {done['period']}"
    if not done["written"]:
        return f"{what} stands as {done['after']} already"
    return f"{what} is written as {done['after']} (was {done['before']})"


def _echo(answer: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str]) -> None:
    if as_json:
        echo_json(answer)
    else:
        click.echo(text(answer))
