"""``tideline retire``: the end of a policy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from daemon.terminal.application import load_config
from daemon.terminal.options import config_option, echo_json, json_option


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config.model import Config
    from handlers.replication.retirement import Retirement


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
    from daemon.process.state_file import open_state
    from daemon.replica.loop import STATE_KIND, handler_policy
    from daemon.replica.verification.session import require_policy
    from handlers.metastore.client import Metastore
    from handlers.replication.retirement import retire as end

    require_policy(config, name)
    settings = config.policies[name]
    with (
        closing(Metastore(config.sources[settings.source].metastore)) as source,
        closing(Metastore(config.targets[settings.target].metastore)) as target,
        closing(open_state(config.state.dir, STATE_KIND, name)) as store,
    ):
        return end(source=source, target=target, policy=handler_policy(name, settings), store=store)
