"""``tideline retire``: the end of a policy."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from daemon.terminal.application import config_option, echo_json, json_option, load_config


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config.model import Config
    from handlers.replication.operations.retirement import Retirement


@click.command()
@click.argument("policy")
@config_option
@json_option
def retire(policy: str, config_path: Path | None, as_json: bool) -> None:
    """End the replication of POLICY; the replica stays as it is.

    The source then keeps no files for the policy and can drop the database. Stop the daemon first, and remove the policy from
    its configuration afterwards.
    """
    from daemon.process.lock import state_lock

    config = load_config(config_path)
    with state_lock(config.state.dir):
        done = retire_policy(config, policy)
    if as_json:
        echo_json(asdict(done))
        return
    mark = "its mark was removed from" if done.unmarked else "there was no mark of it at"
    click.echo(f"policy {policy} is retired: {done.aborted} open transactions aborted, {mark} the source")


def retire_policy(config: Config, name: str) -> Retirement:
    """Retire a policy; raise ConfigError for an unknown name, and what the metastores raise."""
    from daemon.replica.policies import open_policy
    from handlers.replication.operations.retirement import retire as end

    with open_policy(config, name) as found:
        return end(source=found.source, target=found.target, policy=found.policy, store=found.store)
