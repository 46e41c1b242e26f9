"""``tideline policy list`` and ``show``: the configured policies, with their state if a daemon answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from daemon.status.address import daemon_option
from daemon.terminal.application import (
    CommandGroup,
    application,
    config_option,
    echo,
    echo_json,
    json_option,
    load_config,
    output_form,
    print_text,
)
from daemon.terminal.layout import duration_text, number_text, table_text


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config.model import Config
    from daemon.status.address import DaemonAddress
    from daemon.status.model import DaemonStatus


@click.group(cls=CommandGroup)
def policy() -> None:
    """List and show the policies of the configuration."""


@policy.command("list")
@config_option
@json_option
@daemon_option
def list_command(config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """List the policies, those of patterns included, with state and lag as of the last status."""
    if daemon is None:
        from daemon.replica.http.policies import list_policies

        config = load_config(config_path)
        policies = [asdict(each) for each in list_policies(config, _status(config))]
    else:
        from daemon.status.client import fetch_json

        policies = fetch_json(daemon, "/api/v1/policies", {})["policies"]
    echo(policies, as_json, _list_text)


def _list_text(records: list[dict[str, Any]]) -> str:
    header = ("POLICY", "SOURCE", "DATABASE", "TARGET", "STATE", "BEHIND", "LAG", "QUARANTINED")
    rows = [
        (
            each["name"],
            each["source"],
            each["database"],
            f"{each['target']}/{each['target_database']}",
            each["state"] or "-",
            number_text(each["lag_events"]),
            duration_text(each["lag_s"]),
            number_text(each["quarantined"]),
        )
        for each in records
    ]
    return table_text(header, rows) or "no policy is configured"


def _status(config: Config) -> DaemonStatus | None:
    """Return the daemon's last status; None if there is none."""
    from daemon.status.client import load_status
    from state.errors import NotFound

    try:
        return load_status(config.state.dir, application().status_sections())
    except NotFound:
        return None


@policy.command()
@click.argument("policy")
@config_option
@json_option
@daemon_option
def show(policy: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """Show the settings of POLICY, defaults included; 'tideline status POLICY' shows its state."""
    from daemon.config.shown import show_settings

    if daemon is None:
        from daemon.replica.http.policies import show_policy
        from daemon.replica.policies import require_policy

        config = load_config(config_path)
        require_policy(config, policy)
        values = show_policy(config, policy)
    else:
        from daemon.status.client import fetch_json

        values = fetch_json(daemon, f"/api/v1/policies/{quote(policy, safe='')}", {})
    if as_json:
        echo_json(values)
    else:
        import yaml

        shown = show_settings(values, quantities=True)
        kept = {name: each for name, each in shown.items() if each is not None or output_form() == "wide"}
        print_text(yaml.safe_dump(kept, sort_keys=False), nl=False)
