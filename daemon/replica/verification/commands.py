"""``tideline verify``, and its report as plain values and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from daemon.terminal.application import (
    application,
    config_option,
    echo_json,
    json_option,
    load_config,
    print_text,
)
from daemon.terminal.layout import StatusLine, bytes_text, number_text, table_text
from handlers.replication.verification.findings import Outcome


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.replica.verification.run import Request
    from handlers.replication.verification.findings import TableResult


@click.command()
@click.argument("policy")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--rows", is_flag=True, help="Compare counts and hashes of rows too, through Spark.")
@click.option(
    "--spark-master", default="local[2]", show_default=True, help="Where Spark runs, as Spark's own setting."
)
@click.option("--spark-memory", default="1g", show_default=True, help="Heap of Spark's driver.")
@click.option("--spark-conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--checksums", is_flag=True, help="Compare the contents of files too, which reads all of them.")
@click.option(
    "--repair", is_flag=True, help="Load differing tables again, wait for the loads, and verify them."
)
@config_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    policy: str,
    tables: tuple[str, ...],
    config_path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare the replica of POLICY with its source, or only the named tables.
    Changes nothing without --repair.

    Works beside a running daemon: a table that changes meanwhile is compared again after the replica has
    applied the change. The exit code is 0 if every table is equal, and 1 if a table differs or could not be
    compared.
    """
    from daemon.replica.policies import require_policy
    from daemon.replica.verification.run import run_verification

    config = load_config(config_path)
    require_policy(config, policy)
    sections = application().status_sections()
    request, line = _request(policy, tables, **options), StatusLine(quiet=as_json)
    try:
        results, repaired = run_verification(config, request, sections, line.show)
    finally:
        line.clear()
    if as_json:
        echo_json(report(policy, results, repaired))
    else:
        print_text(report_text(policy, results, repaired))
    ctx.exit(0 if is_equal(results) else 1)


def _request(
    policy: str,
    tables: tuple[str, ...],
    *,
    rows: bool,
    spark_master: str,
    spark_memory: str,
    spark_conf: tuple[str, ...],
    **options: bool,
) -> Request:
    from daemon.replica.verification.run import Request
    from streaming.settings import SparkSettings

    if not all("=" in each for each in spark_conf):
        raise click.UsageError("--spark-conf must be KEY=VALUE")
    conf = dict(each.split("=", 1) for each in spark_conf)
    spark = SparkSettings(master=spark_master, driver_memory=spark_memory, conf=conf) if rows else None
    return Request(policy, tables, spark=spark, **options)


def report(policy: str, results: Sequence[TableResult], repaired: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report as plain values; ``repaired`` are the tables whose load was requested."""
    return {
        "policy": policy,
        "loads_requested": list(repaired),
        "equal": is_equal(results),
        "counts": {str(outcome): _count(results, outcome) for outcome in Outcome},
        "tables": [_plain(result) for result in results],
    }


def is_equal(results: Sequence[TableResult]) -> bool:
    """Whether every table was compared and is equal."""
    return all(result.outcome is Outcome.EQUAL for result in results)


def _plain(result: TableResult) -> dict[str, Any]:
    values = asdict(result)
    values["outcome"] = str(result.outcome)
    values["not_compared"] = dict(result.not_compared)
    values["differences"] = [asdict(difference) for difference in result.differences]
    return values


def _count(results: Sequence[TableResult], outcome: Outcome) -> int:
    return sum(result.outcome is outcome for result in results)


def report_text(policy: str, results: Sequence[TableResult], repaired: Sequence[str] = ()) -> str:
    """Return a table of the outcomes, the differences of each table, and a summary."""
    parts = [_outcomes_text(results)]
    parts += [_details(result) for result in results if result.differences or result.reason]
    counts = [(outcome, _count(results, outcome)) for outcome in Outcome]
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
    loads = f"; loads requested: {', '.join(repaired)}" if repaired else ""
    parts.append(f"policy {policy}: {summary}{loads}")
    return "\n\n".join(part for part in parts if part)


def _outcomes_text(results: Sequence[TableResult]) -> str:
    header = (
        "table",
        "outcome",
        "event",
        "differences",
        "partitions",
        "files",
        "bytes",
        "rows",
        "not compared",
    )
    return table_text(header, [_row(result) for result in results])


def _row(result: TableResult) -> tuple[str, ...]:
    skipped = ", ".join(f"{what} {count:,}" for what, count in result.not_compared)
    return (
        result.table or "(database)",
        str(result.outcome),
        "-" if result.event_id is None else str(result.event_id),
        number_text(result.difference_count),
        number_text(result.partitions),
        number_text(result.files),
        bytes_text(result.size_bytes),
        number_text(result.rows),
        skipped or "-",
    )


def _details(result: TableResult) -> str:
    lines = [f"{result.table or '(database)'}: {result.reason or result.outcome}"]
    lines += [f"  {difference}" for difference in result.differences]
    if result.difference_count > len(result.differences):
        lines.append(f"  and {result.difference_count - len(result.differences):,} more")
    return "\n".join(lines)
