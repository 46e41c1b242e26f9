"""``tideline bootstrap``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from daemon.cli.options import config_option, json_option, print_json


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config import Config
    from handlers.replication.bootstrap import Bootstrapped


@click.command()
@click.argument("policy")
@config_option
@json_option
def bootstrap(policy: str, config_path: Path | None, as_json: bool) -> None:
    """Prepare the replica of POLICY, once, before it is followed.

    Marks the source database (its change manager then keeps deleted files), makes the target database, and records the
    event from which 'tideline run' follows. The daemon must not run meanwhile. Doing it again changes nothing.
    """
    from daemon.config import find_file, load_config

    done = _bootstrap(load_config(find_file(config_path)), policy)
    if as_json:
        print_json(asdict(done))
        return
    verb = "was bootstrapped before" if done.repeated else "is bootstrapped"
    click.echo(f"policy {done.policy} {verb}: it follows from event {done.event_id} on")
    if not done.source_exists:
        click.echo("its source database does not exist yet; the replica comes with it")


def _bootstrap(config: Config, name: str) -> Bootstrapped:
    from daemon.lock import state_lock
    from daemon.service.replicas import open_state, policy_of
    from handlers.metastore import Metastore
    from handlers.replication.bootstrap import bootstrap as run
    from state.errors import ConfigError

    settings = config.policies.get(name)
    if settings is None:
        raise ConfigError("there is no such policy", key="policies", value=name, known=sorted(config.policies))
    with (
        state_lock(config.state.dir),
        closing(open_state(config, name)) as store,
        closing(Metastore(config.sources[settings.source].metastore)) as source,
        closing(Metastore(config.targets[settings.target].metastore)) as target,
    ):
        return run(source=source, target=target, policy=policy_of(name, settings), store=store)
