"""``tideline verify``: runs in this process, or in the daemon of ``--url``, and shows the progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from daemon.status.address import daemon_option
from daemon.terminal.application import (
    application,
    config_option,
    echo,
    json_option,
    load_config,
)
from daemon.terminal.layout import StatusLine


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from daemon.replica.verification.run import Request
    from daemon.status.address import DaemonAddress


START_S: Final = 60.0
POLL_S: Final = 1.0


@click.command()
@click.argument("policy")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--rows", is_flag=True, help="Also compare counts and hashes of rows, through Spark.")
@click.option(
    "--spark-master", default="local[2]", show_default=True, help="Spark master, as in Spark's own setting."
)
@click.option("--spark-memory", default="1g", show_default=True, help="Heap of Spark's driver.")
@click.option(
    "--spark-conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of Spark. Repeat the option for further ones.",
)
@click.option(
    "--checksums", is_flag=True, help="Also compare the contents of files, which reads all of them."
)
@click.option(
    "--repair", is_flag=True, help="Load differing tables again, wait for the loads, and verify them."
)
@config_option
@json_option
@daemon_option
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    policy: str,
    tables: tuple[str, ...],
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
    **options: Any,
) -> None:
    """Compare the replica of POLICY, or only the named tables, with its source. Changes nothing without
    --repair.

    Works in parallel with a running daemon: if a table changes in the meantime, it compares the table again
    after the replica has applied the change. The exit code is 0 if every table is equal, and 1 if a table
    differs or its comparison failed.

    The daemon of --url verifies without --rows, and its report lists only the tables that are not equal. The
    verification continues if you interrupt this command.
    """
    from daemon.replica.verification.report import report_text

    request, line = _request(policy, tables, **options), StatusLine(quiet=as_json)
    try:
        if daemon is None:
            report = _verify_here(config_path, request, line.show)
        else:
            report = _verify_there(daemon, request, line.show)
    finally:
        line.clear()
    echo(report, as_json, report_text)
    ctx.exit(0 if report["equal"] else 1)


def _verify_here(config_path: Path | None, request: Request, show: Callable[[str], None]) -> dict[str, Any]:
    from daemon.replica.policies import require_policy
    from daemon.replica.verification.following import find_status
    from daemon.replica.verification.report import make_report
    from daemon.replica.verification.run import run_verification

    config = load_config(config_path)
    require_policy(config, request.policy)
    status = find_status(config, application().status_sections())
    return make_report(request.policy, *run_verification(config, request, status, show))


def _verify_there(daemon: DaemonAddress, request: Request, show: Callable[[str], None]) -> dict[str, Any]:
    """Let a daemon verify, and return its report; raise the error of the verification."""
    from daemon.process.inbox import error_from_json
    from daemon.status.client import fetch_json, send_action
    from state.errors import Interrupted

    if request.spark is not None:
        raise click.UsageError("--rows excludes --url, because the daemon compares no rows")
    path = f"/api/v1/policies/{quote(request.policy, safe='')}"
    parameters = {"tables": list(request.tables), "checksums": request.checksums, "repair": request.repair}
    run = send_action(daemon, path, {"do": "verify", **parameters}, timeout_s=START_S)
    number = run["number"]
    while run["state"] == "running":
        show(run["progress"])
        time.sleep(POLL_S)
        run = fetch_json(daemon, f"{path}/verification", {})
        if run["number"] != number:
            raise Interrupted("the daemon has begun another verification", policy=request.policy)
    if run["problem"] is not None:
        raise error_from_json(run["problem"])
    report: dict[str, Any] = run["report"]
    return report


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
