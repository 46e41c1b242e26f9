"""``tideline external``: lists directories of a policy's external tables, and their places on the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from daemon.status.address import daemon_option
from daemon.terminal.application import config_option, echo_json, json_option, load_config, print_text
from daemon.terminal.layout import table_text


if TYPE_CHECKING:
    from daemon.status.address import DaemonAddress


@click.command()
@click.argument("policy")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this list instead of the policy's own, such as one from Hive's REPL DUMP.",
)
@config_option
@json_option
@daemon_option
def external(
    policy: str, path: Path | None, config_path: Path | None, *, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """List the directories of the external tables of POLICY at the source and on the target,
    as of the last cycle.

    A table has one line, and one more for each directory of partitions outside of it. 'tideline status' shows
    the progress of the copies.
    """
    if daemon is not None and path is not None:
        raise click.UsageError("--file excludes --url")
    if daemon is None:
        from daemon.replica.external.directories import read_directories
        from daemon.replica.policies import require_policy

        config = load_config(config_path)
        require_policy(config, policy)
        listed = read_directories(config, policy, path)
    else:
        from daemon.status.client import fetch_json

        listed = fetch_json(daemon, f"/api/v1/policies/{quote(policy, safe='')}/external", {})["directories"]
    if as_json:
        echo_json({"policy": policy, "directories": listed})
        return
    header = ("TABLE", "SOURCE", "TARGET")
    print_text(
        table_text(header, ((each["table"], each["source"], each["target"] or "-") for each in listed))
    )
