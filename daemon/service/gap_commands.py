"""``tideline gap source | policy``: continue after events that the log of a source has lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from daemon.status.address import DaemonAddress, daemon_option
from daemon.terminal.application import CommandGroup, config_option, echo, json_option, load_config
from state.value_text import count_text


@click.group(cls=CommandGroup)
def gap() -> None:
    """Continue after lost events: first the relay of the source, then each policy that reports the gap."""


@gap.command("source")
@click.argument("source")
@config_option
@json_option
@daemon_option
def source_command(
    source: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """Let the relay of SOURCE continue after events that its log has lost.

    The topic gets a record of them.
    """
    from daemon.relay.requests import TIMEOUT_S, cross_gap_of
    from daemon.status.client import send_action

    if daemon is None:
        crossed = cross_gap_of(load_config(config_path), source)
    else:
        path = f"/api/v1/sources/{quote(source, safe='')}"
        crossed = send_action(daemon, path, {"do": "cross-gap"}, timeout_s=TIMEOUT_S)
    echo(crossed, as_json, _source_text)


def _source_text(crossed: dict[str, Any]) -> str:
    return (
        f"events {crossed['after'] + 1} to {crossed['upto']} are lost; the relay continues after them. "
        "Run 'tideline gap policy POLICY' for each policy that reports the gap."
    )


@gap.command("policy")
@click.argument("policy")
@config_option
@json_option
@daemon_option
def policy_command(
    policy: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """Let POLICY continue after the newest event of its source, and load all its tables again."""
    from daemon.replica.policies import require_policy
    from daemon.replica.requests import cross_gap, open_requests

    if daemon is None:
        config = load_config(config_path)
        require_policy(config, policy)
        crossed = cross_gap(config, policy)
    else:
        crossed = open_requests(config_path, daemon, policy)({"do": "cross-gap"})
    echo(
        crossed,
        as_json,
        lambda done: (
            f"policy {policy}: events {done['after'] + 1} to {done['upto']} are skipped, and "
            f"{count_text(len(done['tables']), 'table')} will be loaded; see 'tideline status'"
        ),
    )
