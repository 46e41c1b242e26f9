"""``tideline promote`` and ``tideline retire``: the two ways in which the replication of a policy ends.

A promotion is a failover: the replica becomes a database that writers may use. A retirement leaves the
replica as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from daemon.status.address import DaemonAddress, daemon_option
from daemon.terminal.application import config_option, echo_json, json_option, print_text
from daemon.terminal.layout import moment_text
from state.value_text import count_text


@click.command()
@click.argument("policy")
@click.option("--dry-run", is_flag=True, help="Show the steps, and change nothing.")
@click.option("--yes", is_flag=True, help="Promote without confirmation.")
@click.option("--force", is_flag=True, help="Promote even if tables are incomplete.")
@config_option
@json_option
@daemon_option
def promote(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    config_path: Path | None,
    *,
    dry_run: bool,
    yes: bool,
    force: bool,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """End the replication of POLICY and let writers use its target database.

    Replay stops after a whole event. The command aborts transactions that are still open, and removes all
    parameters that mark the database as a replica. The command shows the point, and continues once you
    confirm it. It works through a running daemon, and without one if the source is gone.
    """
    from daemon.replica.requests import open_requests

    if as_json and not (dry_run or yes):
        raise click.UsageError("--json needs --dry-run or --yes, because it cannot prompt")
    ask = open_requests(config_path, daemon, policy)
    if dry_run or not yes:
        planned = ask({"do": "plan-promotion"})
        if not as_json:
            print_text("\n".join(plan_lines(planned)))
        if dry_run:
            if as_json:
                echo_json(planned)
            return
        click.confirm(f"Let writers use {planned['database']}?", abort=True)
    done = ask({"do": "promote", "force": force})
    if as_json:
        echo_json(done)
    else:
        print_text("\n".join(done_lines(done)))


def plan_lines(planned: dict[str, Any]) -> Iterator[str]:
    """Yield the point, the transactions to abort, and the incomplete tables."""
    yield f"policy {planned['policy']}: {planned['database']} contains the source up to {_point(planned)}"
    yield (
        f"to be aborted: {count_text(planned['aborted'], 'open transaction')}; to be removed: "
        f"{count_text(len(planned['removed']), 'parameter')}"
    )
    for table, write_ids in planned["open_writes"].items():
        yield (
            f"{table}: write ids {', '.join(map(str, write_ids))} are open, and their rows will never appear"
        )
    for each in planned["incomplete"]:
        yield f"{each['table']}: incomplete: {each['reason']}"
    for each in planned["missing"]:
        yield f"{each['table']}: not in the database: {each['reason']}"


def done_lines(done: dict[str, Any]) -> Iterator[str]:
    """Yield the finished steps, and the remaining work."""
    yield f"policy {done['policy']} is promoted: writers may use {done['database']}, as of {_point(done)}"
    yield f"{count_text(done['aborted'], 'open transaction')} aborted"
    for each in done["incomplete"]:
        yield f"{each['table']}: incomplete: {each['reason']}"
    for each in done["missing"]:
        yield f"{each['table']}: not in the database: {each['reason']}"
    if done["unmarked"] is None:
        yield (
            "the source could not be reached: run the command again when it is back. Until then it "
            "keeps deleted files for the policy"
        )


def _point(promotion: dict[str, Any]) -> str:
    time_s = promotion["time_s"]
    at = "" if time_s is None else f" of {moment_text(time_s)}"
    return f"event {promotion['event_id']}{at}"


@click.command()
@click.argument("policy")
@config_option
@json_option
@daemon_option
def retire(policy: str, config_path: Path | None, *, as_json: bool, daemon: DaemonAddress | None) -> None:
    """End the replication of POLICY; the replica stays as it is.

    The source then keeps no files for the policy and can drop the database. The command works through a
    running daemon, and without one. Remove the policy from the configuration afterwards.
    """
    from daemon.replica.requests import open_requests

    done = open_requests(config_path, daemon, policy)({"do": "retire"})
    if as_json:
        echo_json(done)
        return
    mark = "its mark was removed from" if done["unmarked"] else "there was no mark of it at"
    print_text(
        f"policy {policy} is retired: {count_text(done['aborted'], 'open transaction')} aborted, "
        f"{mark} the source"
    )
