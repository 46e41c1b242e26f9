"""``tideline partitions list | filter | explain | count | names | check | load``.

Queries and changes go to the running daemon; if none runs, the command opens the state that it left.
"""

from __future__ import annotations

import time
from functools import wraps
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from daemon.catalog.command_options import (
    PAUSE_S,
    as_of,
    catalog_options,
    check_table,
    more_lines,
    summary_lines,
)
from daemon.config.quantities import WholeNumber
from daemon.partitions.capability import Partitions
from daemon.partitions.queries import (
    CountPartitions,
    ExplainFilter,
    FilterPartitions,
    ListTables,
    NamesByValues,
)
from daemon.terminal.application import CommandGroup, echo_json, print_text, shown_max
from daemon.terminal.layout import aligned_lines


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from daemon.catalog.access import Access
    from daemon.catalog.command_options import CatalogOptions
    from daemon.catalog.queries import Answer
    from daemon.partitions.queries import FilterQuery


RANGES_MAX: Final = 8
"""Ranges printed; more are counted, and ``-o wide`` has them."""


_BRANCH: Final = Partitions()
_limit_option = click.option(
    "--max", "limit", type=WholeNumber(0), help="Show only the first partitions by name."
)


def filter_options(query: type[FilterQuery]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the arguments and options of a query (``TABLE [FILTER] --dialect``), and pass them as one value of
    this class.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.argument("name", metavar="TABLE")
        @click.argument("filter", default="")
        @click.option(
            "--dialect",
            type=click.Choice(["hive2", "hive4"]),
            default="hive4",
            help="Filter language (hive4).",
        )
        @catalog_options
        @wraps(command)
        def call(*, name: str, options: CatalogOptions, **parameters: Any) -> None:
            command(query(name=name.lower(), source=options.source, **parameters), options)

        return call

    return decorate


@click.group(cls=CommandGroup)
def partitions() -> None:
    """Query, explain, load and check the partition index."""


@partitions.command("list")
@catalog_options
def list_tables(options: CatalogOptions) -> None:
    """List the tables of the index."""
    options.echo_answer(_BRANCH, ListTables(source=options.source), listing_text)


@partitions.command("filter")
@_limit_option
@click.option("--names", is_flag=True, help="Names only.")
@filter_options(FilterPartitions)
def filter_table(query: FilterPartitions, options: CatalogOptions) -> None:
    """Show the partitions of TABLE (db.table) that FILTER matches,
    such as "ds >= '2024-05-01' and hr = 5".
    """
    options.echo_answer(_BRANCH, query, filter_text)


@partitions.command()
@filter_options(CountPartitions)
def count(query: CountPartitions, options: CatalogOptions) -> None:
    """Count the partitions of TABLE that FILTER matches."""
    options.echo_answer(_BRANCH, query, count_text)


@partitions.command()
@filter_options(ExplainFilter)
def explain(query: ExplainFilter, options: CatalogOptions) -> None:
    """Show the plan for FILTER: its ranges, the checks on every key, and the cost."""
    options.echo_answer(_BRANCH, query, explain_text)


@partitions.command()
@click.argument("table")
@click.argument("values", nargs=-1)
@_limit_option
@catalog_options
def names(table: str, values: tuple[str, ...], limit: int | None, options: CatalogOptions) -> None:
    """Show the names of TABLE's partitions with VALUES, in the order of its columns; "" is any value."""
    joined = "/".join(quote(value, safe="") for value in values)
    query = NamesByValues(name=table.lower(), values=joined, limit=limit, source=options.source)
    options.echo_answer(_BRANCH, query, filter_text)


@partitions.command()
@click.argument("tables", nargs=-1)
@click.option("--repair", is_flag=True, help="Load differing partitions again.")
@catalog_options
@click.pass_context
def check(ctx: click.Context, tables: tuple[str, ...], repair: bool, options: CatalogOptions) -> None:
    """Compare every field of TABLES (or all) with the source's metastore;
    exit with 1 if anything differs.
    """
    with options.access(_BRANCH) as access:
        named = [(table.lower(), options.source) for table in tables] or _list(access, options.source)
        results = [
            check_table(access, source, {"do": "check-partitions", "table": table}) for table, source in named
        ]
        differing = [one for one in results if one["drift"]]
        if options.as_json:
            echo_json(results)
        else:
            print_text("\n".join(check_text(one) for one in results) or "no table is indexed")
        if repair:
            loaded = [_load(access, options.source, one["table"], quiet=options.as_json) for one in differing]
            ctx.exit(0 if all(loaded) else 1)
    ctx.exit(1 if differing else 0)


@partitions.command()
@click.argument("table")
@catalog_options
@click.pass_context
def load(ctx: click.Context, table: str, options: CatalogOptions) -> None:
    """Load TABLE again from the source's metastore and show the progress; ends its quarantine.

    Queries see the old state until the load finishes. If you interrupt this command, the daemon continues the
    load.
    """
    name = table.lower()
    with options.access(_BRANCH) as access:
        is_loaded = _load(access, options.source, name, quiet=options.as_json)
        if options.as_json:
            echo_json(_find_row(access, options.source, name))
        ctx.exit(0 if is_loaded else 1)


def _list(access: Access, source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of all tables in the index, except those whose first load is in progress."""
    rows = access.answers.answer(ListTables(source=source))["tables"]
    return [(row["table"], row["source"]) for row in rows if row["partitions"] is not None]


def _load(access: Access, source: str | None, table: str, *, quiet: bool) -> bool:
    """Load a table and wait until it is loaded; return False if it is quarantined or no longer exists."""
    access.do(source, {"do": "load-partitions", "table": table})
    shown = ""
    while True:
        if access.live:
            time.sleep(PAUSE_S)
        else:
            access.do(source, {"do": "load-some"})
        row = _find_row(access, source, table)
        if row is None or row["state"] != "loading":
            break
        progress = progress_text(row)
        if progress != shown and not quiet:
            print_text(f"{table}: {progress}", err=True)
        shown = progress
    if not quiet:
        print_text(_result_text(table, row))
    return row is not None and row["state"] == "following"


def _find_row(access: Access, source: str | None, table: str) -> dict[str, Any] | None:
    rows = access.answers.answer(ListTables(source=source, prefix=table))["tables"]
    return next((row for row in rows if row["table"] == table), None)


def _result_text(table: str, row: dict[str, Any] | None) -> str:
    if row is None:
        return f"{table} is not indexed"
    problem = f": {row['problem']}" if row["problem"] else ""
    return f"{table} is {row['state']}, {row['partitions']} partitions{problem}"


def listing_text(answer: Answer) -> str:
    """Return the indexed tables as rows of text, and the event id that each source reflects."""
    rows = [
        (
            row["table"],
            ", ".join(f"{name} {kind}" for name, kind in row["columns"]) or "-",
            "-" if row["partitions"] is None else str(row["partitions"]),
            row["state"],
            progress_text(row),
        )
        for row in answer["tables"]
    ]
    lines = aligned_lines(("table", "columns", "partitions", "state", ""), rows)
    if not rows:
        lines = [
            (
                "the partition index has no tables yet; the daemon ('tideline run') loads the tables that "
                "'catalog' names"
            )
        ]
    return "\n".join([*lines, *summary_lines(answer, "partitions")])


def progress_text(row: Mapping[str, Any]) -> str:
    """Return the progress of a table's load, or "" without a load."""
    loading = row["loading"]
    return "" if loading is None else f"{loading['done']} of {loading['total']} loaded"


def filter_text(answer: Answer) -> str:
    """Return a line for each partition, with values and location, or only the name if names were queried."""
    lines = answer.get("names")
    if lines is None:
        rows = [
            ("/".join(one["values"]), one.get("sd", {}).get("location") or "-")
            for one in answer["partitions"]
        ]
        lines = aligned_lines(("values", "location"), rows)
    return "\n".join([*lines, *_cut(answer), *_problem(answer)])


def count_text(answer: Answer) -> str:
    """Return the number."""
    return "\n".join([str(answer["count"]), *_problem(answer)])


def explain_text(answer: Answer) -> str:
    """Return the scan plan and its cost."""
    ranges = [f"  {text}" for text in answer["ranges"][: shown_max(RANGES_MAX)]]
    more = answer["range_count"] - len(ranges)
    joined = ", ranges joined (too many)" if answer["capped"] else ""
    return "\n".join(
        [
            f"table     {answer['table']}",
            f"read      {answer['way']}{joined}",
            f"ranges    {answer['range_count']}",
            *ranges,
            *more_lines(more, "ranges"),
            f"residual  {answer['residual'] or 'none: every key in the ranges matches'}",
            "rows      "
            + ", ".join(f"{cost} {answer[f'{cost}_rows']}" for cost in ("estimated", "scanned", "matched")),
            *_problem(answer),
        ]
    )


def check_text(result: Mapping[str, Any]) -> str:
    """Return the differences that a check of one table found."""
    if not result["drift"]:
        return f"{result['table']}: {result['compared']} partitions match the source, {_as_of(result)}"
    moving = " (the source changed during the check)" if result["moving"] else ""
    return "\n".join([f"{result['table']}: differs{moving}, {_as_of(result)}", *_differences(result)])


def _differences(result: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("missing", "surplus"):
        yield from (f"  {kind} {name}" for name in result[kind])
        yield from more_lines(result[f"{kind}_count"] - len(result[kind]), kind)
    yield from (f"  {name} differs in {', '.join(fields)}" for name, fields in result["differing"].items())
    yield from more_lines(result["differing_count"] - len(result["differing"]), "that differ")


def _as_of(result: Mapping[str, Any]) -> str:
    return as_of({"event_id": result["event_id"], "current_event_id": result["source_event_id"]})


def _cut(answer: Answer) -> list[str]:
    return ["… and more: raise --max"] if answer["truncated"] else []


def _problem(answer: Answer) -> list[str]:
    """Return a warning if the answer may not be current."""
    if answer["state"] == "following":
        return []
    return [f"{answer['table']} is {answer['state']}, {as_of(answer)}", *filter(None, [answer["problem"]])]
