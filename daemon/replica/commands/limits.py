"""``tideline limit``: the limits of copying of a running daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from daemon.config.fields import BYTES_PER_S_MIN
from daemon.config.quantities import Quantity
from daemon.status.address import DaemonAddress, daemon_option, require_daemon
from daemon.terminal.application import config_option, echo, json_option
from daemon.terminal.layout import bytes_text, table_text


TIMEOUT_S: Final = 30.0
_RATE: Final = Quantity("bytes", BYTES_PER_S_MIN)


@click.command()
@click.argument("rate", required=False)
@click.option("--policy", help="Limit only the copies of this policy.")
@config_option
@json_option
@daemon_option
@click.pass_context
def limit(  # noqa: PLR0913, PLR0917 - click passes one argument for each option
    ctx: click.Context,
    rate: str | None,
    policy: str | None,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Limit all copies of the running daemon to RATE: bytes per second, such as 20MiB, or 'none' for no
    limit.

    Without RATE, show the limits. A limit takes effect at once, and lasts until the daemon restarts.
    """
    from daemon.status.client import fetch_json, send_action

    address = require_daemon(config_path, daemon)
    if rate is None:
        if policy is not None:
            raise click.UsageError("--policy needs RATE")
        echo(fetch_json(address, "/api/v1/copies", {}), as_json, _limits_text)
        return
    bytes_per_s = None if rate == "none" else int(_RATE.convert(rate, None, ctx))
    path = "/api/v1/copies" if policy is None else f"/api/v1/policies/{quote(policy, safe='')}"
    request = {"do": "limit", "bytes_per_s_max": bytes_per_s}
    echo(
        send_action(address, path, request, timeout_s=TIMEOUT_S),
        as_json,
        lambda done: f"{_rate_text(done['bytes_per_s_max'])}, was {_rate_text(done['before'])}",
    )


def _limits_text(limits: dict[str, Any]) -> str:
    rows = [("all copies", _rate_text(limits["bytes_per_s_max"]))]
    rows += [(each["name"], _rate_text(each["bytes_per_s_max"])) for each in limits["policies"]]
    return table_text(("COPIES OF", "LIMIT"), rows)


def _rate_text(bytes_per_s: int | None) -> str:
    return "no limit" if bytes_per_s is None else f"{bytes_text(bytes_per_s)}/s"
