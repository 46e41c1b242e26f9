"""``tideline verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from daemon.terminal.application import application, config_option, echo_json, json_option, load_config
from daemon.terminal.layout import StatusLine


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.replica.verification.run import Request


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
    """Compare the replica of POLICY with its source, or only the named tables. Changes nothing without --repair.

    Works beside a running daemon: a table that changes meanwhile is compared again after the replica has applied the change. The exit
    code is 0 if every table is equal, and 1 if a table differs or could not be compared.
    """
    from daemon.replica.policies import require_policy
    from daemon.replica.verification.run import run_verification
    from daemon.replica.verification.text import is_equal, report, report_text

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
        click.echo(report_text(policy, results, repaired))
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
