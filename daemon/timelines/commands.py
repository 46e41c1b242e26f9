"""``tideline timeline show | cover | latest | migrate | rebuild | check``.

Queries and changes go to the running daemon; if none runs, the command opens the state that it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from daemon.catalog.command_options import (
    as_of,
    catalog_options,
    check_table,
    more_lines,
    summary_lines,
)
from daemon.terminal.application import CommandGroup, echo_json, print_text, shown_max
from daemon.terminal.layout import aligned_lines
from daemon.timelines.capability import Timelines
from daemon.timelines.queries import CoverRange, FindLatest, ListTables, ShowTable
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from daemon.catalog.access import Access
    from daemon.catalog.command_options import CatalogOptions
    from daemon.catalog.queries import Answer


LINES_MAX: Final = 200
"""Runs printed; more are counted, and ``--json`` has them."""


_BRANCH: Final = Timelines()
_column_option = click.option("--column", help="Time column; required if the table has several.")


@click.group(cls=CommandGroup)
def timeline() -> None:
    """Show which partitions exist, cover ranges of time, and maintain timelines."""


@timeline.command()
@click.argument("table", required=False)
@catalog_options
def show(table: str | None, options: CatalogOptions) -> None:
    """Show the timelines of TABLE (db.table) with runs and holes, or list all tables."""
    if table is None:
        options.echo_answer(_BRANCH, ListTables(source=options.source), listing_text)
    else:
        options.echo_answer(_BRANCH, ShowTable(name=table.lower(), source=options.source), show_text)


@timeline.command()
@click.argument("name")
@_column_option
@catalog_options
def latest(name: str, column: str | None, options: CatalogOptions) -> None:
    """Show the latest partition of NAME, a table (db.table) or a fact."""
    query = FindLatest(name=name.lower(), source=options.source, column=column)
    options.echo_answer(_BRANCH, query, latest_text)


@timeline.command()
@click.argument("name")
@click.argument("start")
@click.argument("end")
@click.option(
    "--period",
    "periods",
    multiple=True,
    help="Use only this update period. Repeat the option for further ones.",
)
@click.option("--strict", is_flag=True, help="Fail if anything is missing.")
@click.option("--min-count", is_flag=True, help="Use the fewest partitions if weeks and months overlap.")
@click.option("--where", type=click.Choice(["or", "in", "between"]), help="Print the condition as SQL.")
@click.option("--alias", default="", help="Alias of the table in the condition.")
@_column_option
@catalog_options
def cover(options: CatalogOptions, name: str, **parameters: Any) -> None:
    """Show which partitions cover [START, END) of NAME, a table (db.table) or a fact, and what is missing.

    START and END are partition values such as 2015-01-29-06 or ISO 8601 timestamps, in UTC.
    """
    periods = ",".join(parameters.pop("periods"))
    query = CoverRange(name=name.lower(), source=options.source, periods=periods, **parameters)
    options.echo_answer(_BRANCH, query, cover_text)


@timeline.command()
@click.argument("table")
@click.option("--column", required=True, help="Time column.")
@click.option("--period", required=True, help="Update period, such as DAILY.")
@click.option("--to", "form", required=True, help="Storage form: ends-and-holes, ranges, store-all.")
@catalog_options
def migrate(table: str, column: str, period: str, form: str, options: CatalogOptions) -> None:
    """Change the storage form of one timeline of TABLE in its table properties,
    with one alter_table and without a reload.
    """
    request = {
        "do": "migrate-timeline",
        "table": table.lower(),
        "column": column,
        "period": period,
        "to": form,
    }
    with options.access(_BRANCH) as access:
        options.echo(access.do(options.source, request), _migration_text)


@timeline.command()
@click.argument("table")
@catalog_options
def rebuild(table: str, options: CatalogOptions) -> None:
    """Load the timelines of TABLE again from its partitions; ends its quarantine."""
    with options.access(_BRANCH) as access:
        answer = access.do(options.source, {"do": "load-timelines", "table": table.lower()})
        options.echo(answer, lambda d: f"{d['table']} is loaded again: {d['timelines']} timelines")


@timeline.command()
@click.argument("tables", nargs=-1)
@catalog_options
@click.pass_context
def check(ctx: click.Context, tables: tuple[str, ...], options: CatalogOptions) -> None:
    """Compare TABLES (or all) with the source's metastore; exit with 1 if anything differs."""
    with options.access(_BRANCH) as access:
        named = [(table.lower(), options.source) for table in tables] or _list(access, options.source)
        results = [
            check_table(access, source, {"do": "check-timelines", "table": table}) for table, source in named
        ]
    if options.as_json:
        echo_json(results)
    else:
        print_text("\n".join(check_text(one) for one in results) or "no table has timelines")
    ctx.exit(1 if any(one["drift"] for one in results) else 0)


def _list(access: Access, source: str | None) -> list[tuple[str, str | None]]:
    """Return (table, source) of all tables that have timelines."""
    return [
        (row["table"], row["source"]) for row in access.answers.answer(ListTables(source=source))["tables"]
    ]


def _migration_text(result: dict[str, Any]) -> str:
    timeline = f"{result['table']} {result['column']} {result['period']}"
    if not result["written"]:
        return f"{timeline} already has the form {result['after']}"
    return f"{timeline} now has the form {result['after']} (before: {result['before']})"


def listing_text(answer: Answer) -> str:
    """Return the tables as rows of text, and the event id that each source reflects."""
    rows = [
        (
            row["table"],
            one["column"],
            one["period"],
            str(one["partitions"]),
            str(one["runs"]),
            one["latest"] or "-",
            row["state"],
        )
        for row in answer["tables"]
        for one in row["timelines"]
        or [{"column": "-", "period": "-", "partitions": 0, "runs": 0, "latest": None}]
    ]
    lines = aligned_lines(("table", "column", "period", "partitions", "runs", "latest", "state"), rows)
    if not rows:
        lines = [
            "no table has timelines yet; the daemon ('tideline run') loads the tables that 'catalog' names"
        ]
    return "\n".join([*lines, *summary_lines(answer, "runs")])


def show_text(answer: Answer) -> str:
    """Return each timeline with its bar of runs and holes."""
    lines = [f"{answer['table']} ({answer['source']}), {as_of(answer)}", *_problems(answer)]
    for one in answer["timelines"]:
        lines += [
            "",
            (
                f"{one['column']} {one['period']} ({one['form']}): "
                f"{count_text(one['partitions'], 'partition')}, {count_text(one['run_count'], 'run')}"
            ),
        ]
        if one["first"] is not None:
            lines.append(f"  {one['first']} |{one['bar']}| {one['latest']}")
        lines += [f"  missing {_range(hole)}" for hole in one["holes"][: shown_max(LINES_MAX)]]
        lines += _more(len(one["holes"]), "holes")
    for one in answer.get("ignored", ()):
        lines += _ignored_lines(one)
    return "\n".join(lines)


def _ignored_lines(one: Mapping[str, Any]) -> list[str]:
    """Return how many values of a column belong to none of its timelines, with the first of them."""
    if one["count"] == 0:
        return []
    if one["count"] is None and one["more_than"] is None:
        rule = "values outside of the timeline are unknown; run 'tideline timeline rebuild' to list them"
        return ["", f"{one['column']}: {rule}"]
    count = (
        f"more than {one['more_than']} values are"
        if one["count"] is None
        else count_text(one["count"], "value is", "values are")
    )
    lines = ["", f"{one['column']}: {count} ignored, because no timeline contains such values"]
    lines += [f"  ignored {value}" for value in one["values"][: shown_max(LINES_MAX)]]
    return [*lines, *_more(len(one["values"]), "ignored values")]


def latest_text(answer: Answer) -> str:
    """Return the latest partition of each column."""
    rows = [
        (column, partition["value"] if partition else "-", partition["period"] if partition else "-")
        for column, partition in answer["latest"].items()
    ]
    return "\n".join(
        [*aligned_lines(("column", "latest", "period"), rows), as_of(answer), *_problems(answer)]
    )


def cover_text(answer: Answer) -> str:
    """Return the runs and missing ranges of a cover and, on request, the condition."""
    complete = "complete" if answer["complete"] else "NOT complete"
    lines = [
        (
            f"{answer['name']} {answer['column']} {answer['range']}: {complete}, {answer['partitions']} "
            "partitions"
        )
    ]
    rows = [
        (run["table"], run["period"], run["first"], run["last"], str(run["count"]))
        for run in answer["runs"][: shown_max(LINES_MAX)]
    ]
    lines += aligned_lines(("table", "period", "first", "last", "partitions"), rows)
    lines += _more(answer["run_count"], "runs")
    lines += [
        f"missing {part['period']} {part['range']}" for part in answer["missing"][: shown_max(LINES_MAX)]
    ]
    lines += _more(len(answer["missing"]), "missing ranges")
    lines += [f"{table}: {text}" for table, text in answer.get("where", {}).items()]
    return "\n".join([*lines, as_of(answer), *_problems(answer)])


def check_text(result: Mapping[str, Any]) -> str:
    """Return the differences that a check of one table found."""
    if not result["drift"]:
        return f"{result['table']}: matches the source, {as_of(result)}"
    moving = " (the source changed during the check)" if result["moving"] else ""
    lines = [f"{result['table']}: differs{moving}, {as_of(result)}"]
    for one in result["drift"]:
        for kind in ("missing", "surplus"):
            lines += [
                f"  {one['column']} {one['period']} {kind} {part}"
                for part in one[kind][: shown_max(LINES_MAX)]
            ]
            lines += _more(len(one[kind]), kind)
    return "\n".join(lines)


def _problems(answer: Answer) -> list[str]:
    states = [f"{table} is {state}" for table, state in answer["states"].items() if state != "following"]
    return [*states, *(f"{table}: {reason}" for table, reason in answer["problems"].items())]


def _more(count: int, what: str) -> list[str]:
    return more_lines(count - shown_max(LINES_MAX), what)


def _range(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
