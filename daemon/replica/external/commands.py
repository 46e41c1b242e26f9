"""``tideline external``:
the directories of a policy's external tables, and where their files are on the target.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from daemon.status.address import daemon_option
from daemon.terminal.application import config_option, echo_json, json_option, load_config, print_text
from daemon.terminal.layout import table_text
from state.errors import NotFound


if TYPE_CHECKING:
    from daemon.config.model import Config
    from daemon.config.settings.policies import PolicyConfig
    from daemon.status.address import DaemonAddress


@click.command()
@click.argument("policy")
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this list instead of the policy's own, such as one that Hive's REPL DUMP has written.",
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


def read_directories(config: Config, policy: str, path: Path | None) -> list[dict[str, Any]]:
    """Return the directories of a list; raise NotFound if no cycle has written one, and BadInput."""
    from daemon.replica.external.policy_cycles import list_directory
    from handlers.replication.external.cycle import DIRECTORY_LIST
    from state.external.directories import parse_directories

    path = path or list_directory(config, policy) / DIRECTORY_LIST
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise NotFound(
            "there is no list of external tables yet",
            path=str(path),
            hint="The daemon writes it at the start of each cycle, if the policy has an external_base. "
            "Run this on its machine.",
        ) from None
    settings = config.policy(policy)
    return [
        {"table": f"{settings.database}.{table}", "source": source, "target": _find_target(settings, source)}
        for table, source in parse_directories(text)
    ]


def _find_target(policy: PolicyConfig, source: str) -> str | None:
    """Return the directory on the target; None if there is no base, or if the location is refused."""
    from handlers.replication.policy.locations import place_below
    from state.errors import UnsafePath

    if policy.external_base is None:
        return None
    try:
        return place_below(policy.external_base, source)
    except UnsafePath:
        return None
