"""``tideline release``, ``pause``, ``resume`` and ``prune``: requests to a policy that remains configured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from daemon.status.address import DaemonAddress, daemon_option
from daemon.terminal.application import config_option, echo, echo_json, json_option, print_text
from daemon.terminal.layout import duration_text, number_text, table_text
from state.value_text import count_text


@click.command()
@click.argument("policy")
@click.argument("table")
@click.option("--load", is_flag=True, help="Load the table again even if replay could resume.")
@config_option
@json_option
@daemon_option
def release(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    table: str,
    config_path: Path | None,
    *,
    load: bool,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Follow the quarantined TABLE of POLICY again.

    The table resumes at the event that failed if all that it needs is still available; otherwise the policy
    loads it from the source. All other tables continue.
    """
    _ask(
        policy, {"do": "release", "table": table, "load": load}, (config_path, daemon), as_json, _release_text
    )


def _release_text(answer: dict[str, Any]) -> str:
    (table,) = answer["tables"]
    at, waits_for = answer["resumes_at"], answer.get("waits_for")
    done = f"will be loaded, because {answer['reason']}" if at is None else f"resumes at event {at}"
    return f"{table}: {done}; see 'tideline status'" if waits_for is None else f"{table}: {done}. {waits_for}"


@click.command()
@click.argument("policy")
@click.option("--reason", default="", help="Why, for those who find the policy paused.")
@config_option
@json_option
@daemon_option
def pause(
    policy: str, reason: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None
) -> None:
    """Stop applying events of POLICY until 'tideline resume POLICY'. The pause survives a restart of the
    daemon.
    """
    _ask(
        policy,
        {"do": "pause", "reason": reason},
        (config_path, daemon),
        as_json,
        lambda answer: f"policy {policy} {'is' if answer['changed'] else 'was already'} paused",
    )


@click.command()
@click.argument("policy")
@config_option
@json_option
@daemon_option
def resume(policy: str, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """Resume the paused POLICY, or restart its failed loop."""
    _ask(
        policy, {"do": "resume"}, (config_path, daemon), as_json, lambda answer: _resume_text(policy, answer)
    )


def _resume_text(policy: str, answer: dict[str, Any]) -> str:
    done = f"policy {policy} {'is resumed' if answer['changed'] else 'was not paused'}"
    waits_for = answer.get("waits_for")
    return done if waits_for is None else f"{done}. {waits_for}"


def _ask(
    policy: str,
    request: dict[str, Any],
    served_by: tuple[Path | None, DaemonAddress | None],
    as_json: bool,
    text: Callable[[dict[str, Any]], str],
) -> None:
    from daemon.replica.requests import open_requests

    echo(open_requests(*served_by, policy)(request), as_json, text)


@click.command()
@click.argument("policy")
@click.argument("tables", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Show the tables to drop, and change nothing.")
@click.option("--yes", is_flag=True, help="Drop without confirmation.")
@config_option
@json_option
@daemon_option
def prune(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    tables: tuple[str, ...],
    config_path: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Drop TABLES on the target that left POLICY because its patterns changed; all of them if you name none.

    The command shows what it would drop, and continues once you confirm it. It refuses tables that the policy
    replicates or never replicated. It deletes the data of managed tables, and keeps that of external tables.
    """
    from daemon.replica.requests import open_requests

    if as_json and not (dry_run or yes):
        raise click.UsageError("--json needs --dry-run or --yes, because it cannot prompt")
    ask = open_requests(config_path, daemon, policy)
    drops = ask({"do": "plan-prune", "tables": list(tables)})["drops"]
    if not as_json:
        header = ("TABLE", "KIND", "PARTITIONS", "DATA", "LEFT", "LOCATION")
        rows = [_row(drop, time.time()) for drop in drops]
        print_text(table_text(header, rows) if rows else f"no table left policy {policy}")
    names = [drop["table"] for drop in drops]
    dropped: Sequence[str] = ()
    if names and not dry_run:
        if not yes:
            click.confirm(f"Drop {count_text(len(names), 'table')} on the target?", abort=True)
        dropped = ask({"do": "prune", "tables": names})["dropped"]
    if as_json:
        echo_json({"policy": policy, "drops": drops, "dropped": list(dropped)})
    elif dropped:
        print_text(f"dropped: {', '.join(dropped)}")


def _row(drop: dict[str, Any], now_s: float) -> tuple[str, ...]:
    return (
        drop["table"],
        drop["kind"],
        number_text(drop["partitions"]),
        "deleted" if drop["deletes_data"] else "none" if drop["kind"] == "view" else "kept",
        f"{duration_text(max(0.0, now_s - drop['left_s']))} ago" if drop["left_s"] else "-",
        drop["location"] or "-",
    )
