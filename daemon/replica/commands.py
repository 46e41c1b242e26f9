"""``tideline bootstrap``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from daemon.terminal.application import load_config
from daemon.terminal.options import config_option, echo_json, json_option


if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("policy")
@config_option
@json_option
def bootstrap(policy: str, config_path: Path | None, as_json: bool) -> None:
    """Create the replica of POLICY, once, before the daemon follows it. Repeating it changes nothing."""
    from dataclasses import asdict

    from daemon.process.lock import state_lock
    from daemon.replica.loop import bootstrap_policy

    config = load_config(config_path)
    with state_lock(config.state.dir):
        done = bootstrap_policy(config, policy)
    if as_json:
        echo_json(asdict(done))
    else:
        state = "was already bootstrapped" if done.repeated else "is bootstrapped"
        click.echo(f"policy {policy} {state}; replication continues after event {done.event_id}")
