"""``tideline compact``: compactions on the target of a policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from daemon.config.model import Config
from daemon.status.address import DaemonAddress, daemon_option
from daemon.terminal.application import config_option, echo, json_option, load_config
from daemon.terminal.layout import moment_text, table_text


@click.command()
@click.argument("policy")
@click.argument("table", required=False)
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    help="Only this partition (k=v/...). Repeat the option for further ones.",
)
@click.option("--minor", is_flag=True, help="Only join deltas, without writing a new base.")
@click.option("--list", "only_list", is_flag=True, help="Show the compactions of TABLE, and request none.")
@config_option
@json_option
@daemon_option
def compact(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    table: str | None,
    partitions: tuple[str, ...],
    config_path: Path | None,
    *,
    minor: bool,
    only_list: bool,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Queue compactions of TABLE on the target of POLICY;
    without TABLE, show the compactions of its database.

    The target compacts independently of the source. Its workers do the work later, and readers see the same
    rows meanwhile. The command queues all partitions of a partitioned table, unless you name some.
    """
    name = None if table is None else table.lower().rpartition(".")[2]
    order: dict[str, Any] | None = None
    if name is not None and not only_list:
        kind = "minor" if minor else "major"
        order = {"table": name, "partitions": list(partitions), "kind": kind}
    if daemon is None:
        answer = _compact_here(load_config(config_path), policy, order, name)
    else:
        answer = _compact_there(daemon, policy, order, name)
    echo({"policy": policy, **answer}, as_json, _answer_text)


def _compact_here(
    config: Config, policy: str, order: dict[str, Any] | None, table: str | None
) -> dict[str, Any]:
    from daemon.replica.http.routes import CompactParameters, read_compactions, request_compaction
    from daemon.replica.policies import require_policy

    require_policy(config, policy)
    requested = (
        {"requested": []} if order is None else request_compaction(config, policy, CompactParameters(**order))
    )
    states = read_compactions(config, policy, table)
    return {**requested, "compactions": [asdict(each) for each in states]}


def _compact_there(
    daemon: DaemonAddress, policy: str, order: dict[str, Any] | None, table: str | None
) -> dict[str, Any]:
    from daemon.replica.requests import TIMEOUT_S
    from daemon.status.client import fetch_json, send_action

    path = f"/api/v1/policies/{quote(policy, safe='')}"
    requested: dict[str, Any] = {"requested": []}
    if order is not None:
        requested = send_action(daemon, path, {"do": "compact", **order}, timeout_s=TIMEOUT_S)
    return {**requested, **fetch_json(daemon, f"{path}/compactions", {"table": table}, timeout_s=TIMEOUT_S)}


def _answer_text(answer: dict[str, Any]) -> str:
    lines = []
    for each in answer["requested"]:
        name = f"{each['table']}/{each['partition']}" if each["partition"] else each["table"]
        detail = f": {each['message']}" if each["message"] else ""
        lines.append(f"{name}: {each['kind']} compaction {each['state']}{detail}")
    header = ("COMPACTION OF", "PARTITION", "KIND", "STATE", "STARTED", "ENDED", "MESSAGE")
    states = table_text(header, map(_row, answer["compactions"]))
    return "\n".join([*lines, states or f"no compactions on the target of policy {answer['policy']}"])


def _row(state: dict[str, Any]) -> tuple[str, ...]:
    return (
        state["table"],
        state["partition"] or "-",
        state["kind"],
        state["state"],
        moment_text(state["started_s"]),
        moment_text(state["ended_s"]),
        state["message"] or "-",
    )
