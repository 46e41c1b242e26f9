"""``tideline release``, ``tideline pause`` and ``tideline resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from daemon.terminal.application import config_option, echo, json_option, load_config


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@click.command()
@click.argument("policy")
@click.argument("table")
@click.option("--load", is_flag=True, help="Load the table even if it could resume.")
@config_option
@json_option
def release(policy: str, table: str, config_path: Path | None, *, load: bool, as_json: bool) -> None:
    """Let the quarantined TABLE of POLICY be followed again.

    The table resumes at the event that failed if nothing that it needs has passed since; otherwise it is loaded from the source. The
    policy follows all other tables meanwhile.
    """
    _ask(policy, {"do": "release", "table": table, "load": load}, config_path, as_json, _release_text)


def _release_text(answer: dict[str, Any]) -> str:
    (table,) = answer["tables"]
    if answer["resumes_at"] is not None:
        return f"{table}: resumes at event {answer['resumes_at']}; see 'tideline status'"
    return f"{table}: will be loaded, because {answer['reason']}; see 'tideline status'"


@click.command()
@click.argument("policy")
@config_option
@json_option
def pause(policy: str, config_path: Path | None, as_json: bool) -> None:
    """Stop applying events of POLICY until it is resumed. The pause survives a restart of the daemon."""
    _ask(policy, {"do": "pause"}, config_path, as_json, lambda _: f"policy {policy} is paused")


@click.command()
@click.argument("policy")
@config_option
@json_option
def resume(policy: str, config_path: Path | None, as_json: bool) -> None:
    """Resume the paused POLICY."""
    _ask(policy, {"do": "resume"}, config_path, as_json, lambda _: f"policy {policy} is resumed")


def _ask(
    policy: str,
    request: dict[str, Any],
    config_path: Path | None,
    as_json: bool,
    text: Callable[[dict[str, Any]], str],
) -> None:
    from daemon.replica.policies import require_policy
    from daemon.replica.requests import ask_policy

    config = load_config(config_path)
    require_policy(config, policy)
    echo(ask_policy(config, policy, request), as_json, text)
