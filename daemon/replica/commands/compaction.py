"""``tideline compact``: compactions on the target of a policy."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import click

from daemon.terminal.application import config_option, echo_json, json_option, load_config, print_text
from daemon.terminal.layout import table_text


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from handlers.replication.operations.compaction import CompactionState, RequestedCompaction


@click.command()
@click.argument("policy")
@click.argument("table", required=False)
@click.option(
    "--partition", "partitions", multiple=True, help="Only this partition (k=v/...); may be repeated."
)
@click.option("--minor", is_flag=True, help="Join deltas only, instead of writing a new base.")
@click.option("--list", "only_list", is_flag=True, help="Show the compactions of TABLE, and request none.")
@config_option
@json_option
def compact(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    table: str | None,
    partitions: tuple[str, ...],
    config_path: Path | None,
    *,
    minor: bool,
    only_list: bool,
    as_json: bool,
) -> None:
    """Queue compactions of TABLE on the target of POLICY;
    without TABLE, show the compactions of its database.

    The target compacts independently of the source. Its workers do the work later, and readers see the same
    rows meanwhile. A partitioned table is compacted in all partitions, unless some are named.
    """
    from daemon.replica.policies import handler_policy, require_policy
    from handlers.metastore.client import Metastore
    from handlers.replication.operations.compaction import list_compactions, request_compactions

    config = load_config(config_path)
    require_policy(config, policy)
    settings = config.policy(policy)
    kind: Literal["major", "minor"] = "minor" if minor else "major"
    name = None if table is None else table.lower().rpartition(".")[2]
    requested: Sequence[RequestedCompaction] = ()
    with closing(Metastore(config.targets[settings.target].metastore)) as target:
        replay_policy = handler_policy(config, policy)
        if name is not None and not only_list:
            requested = request_compactions(target, replay_policy, name, partitions, kind)
        states = list_compactions(target, replay_policy, name)
    if as_json:
        echo_json(
            {
                "policy": policy,
                "requested": [asdict(each) for each in requested],
                "compactions": [asdict(each) for each in states],
            }
        )
        return
    for each in requested:
        what = f"{each.table}/{each.partition}" if each.partition else each.table
        detail = f": {each.message}" if each.message else ""
        print_text(f"{what}: {each.kind} compaction {each.state}{detail}")
    print_text(states_text(states) or f"no compactions on the target of policy {policy}")


def states_text(states: Sequence[CompactionState]) -> str:
    """Return a row for each compaction."""
    header = ("COMPACTION OF", "PARTITION", "KIND", "STATE", "STARTED", "ENDED", "MESSAGE")
    return table_text(header, (_row(asdict(each)) for each in states))


def _row(state: dict[str, Any]) -> tuple[str, ...]:
    return (
        state["table"],
        state["partition"] or "-",
        state["kind"],
        state["state"],
        _time(state["started_s"]),
        _time(state["ended_s"]),
        state["message"] or "-",
    )


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_s))
