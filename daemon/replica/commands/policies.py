"""``tideline policy list`` and ``show``: the configured policies, with their state if a daemon is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

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
    from collections.abc import Mapping
    from pathlib import Path

    from daemon.config.model import Config
    from daemon.status.model import ProjectionView


@click.group(cls=CommandGroup)
def policy() -> None:
    """List and show the policies of the configuration."""


@policy.command("list")
@config_option
@json_option
def list_command(config_path: Path | None, as_json: bool) -> None:
    """List the policies, those of patterns included, with state and lag as of the last status."""
    config = load_config(config_path)
    views = _views(config)
    names = sorted({*config.policies, *(name for name in views if config.find_policy(name) is not None)})
    echo([_record(config, name, views.get(name)) for name in names], as_json, _list_text)


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


def _record(config: Config, name: str, view: ProjectionView | None) -> dict[str, Any]:
    settings = config.policy(name)
    return {
        "name": name,
        "source": settings.source,
        "database": settings.database,
        "target": settings.target,
        "target_database": settings.target_database or settings.database,
        "state": None if view is None else view.state,
        "lag_events": None if view is None else view.lag_events,
        "lag_s": None if view is None else view.lag_s,
        "quarantined": None if view is None else len(view.quarantined),
    }


def _views(config: Config) -> Mapping[str, ProjectionView]:
    """Return the replicas of the last status, by policy; none if there is no status."""
    from daemon.status.client import load_status
    from state.errors import NotFound

    try:
        status = load_status(config.state.dir, application().status_sections())
    except NotFound:
        return {}
    pairs = ((view.name.partition(":"), view) for view in status.projections)
    return {name: view for (kind, _, name), view in pairs if kind == "replication"}


@policy.command()
@click.argument("policy")
@config_option
@json_option
def show(policy: str, config_path: Path | None, as_json: bool) -> None:
    """Show the settings of POLICY, defaults included; 'tideline status POLICY' shows its state."""
    from daemon.config.shown import show_settings
    from daemon.replica.policies import require_policy

    config = load_config(config_path)
    require_policy(config, policy)
    settings = config.policy(policy).model_dump(mode="json")
    values = {"name": policy, **show_settings(settings, quantities=not as_json)}
    if as_json:
        echo_json(values)
    else:
        import yaml

        kept = {name: each for name, each in values.items() if each is not None or output_form() == "wide"}
        print_text(yaml.safe_dump(kept, sort_keys=False), nl=False)
