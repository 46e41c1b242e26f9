"""``tideline wait``: ends the moment its condition is true.

Exit codes are for scripts: 0 true, 3 not yet, 4 unavailable, 5 unknown name, and 1 or 2 for requests that can
never succeed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from daemon.config.quantities import Quantity, WholeNumber
from daemon.status.address import DaemonAddress, daemon_option, require_daemon
from daemon.terminal.application import (
    config_option,
    echo,
    json_option,
    output_form,
    print_failure,
    print_text,
)


NOT_YET: Final = 3
UNAVAILABLE: Final = 4
UNKNOWN: Final = 5
RETRY_S: Final = 2.0
REQUEST_S: Final = 240.0
"""How long one request waits; a longer wait repeats it."""
ANSWER_S: Final = 20.0
"""How much later the daemon's answer may arrive."""


@click.command()
@click.option(
    "--replica", metavar="POLICY", help="Wait until the replica has applied an event of the source."
)
@click.option("--event", type=WholeNumber(min=0), help="The event (default: the newest one of the source).")
@click.option("--table", metavar="DB.TABLE", help="The table of --partition or --range.")
@click.option("--partition", help="Wait until --table has this partition: dt=2024-01-01/hr=5.")
@click.option(
    "--range",
    "span",
    nargs=2,
    metavar="COLUMN START..END",
    help="Wait until the partitions of --table or --fact cover this range, excluding its end.",
)
@click.option("--fact", help="The fact of --range, instead of --table.")
@click.option("--source", help="Name of the source, if several have the table.")
@click.option(
    "--timeout",
    "timeout_s",
    type=Quantity("s"),
    default="10m",
    show_default=True,
    help="Maximum time to wait, in seconds or as 10m; 0 checks once.",
)
@config_option
@json_option
@daemon_option
@click.pass_context
def wait(
    ctx: click.Context,
    /,
    *,
    span: tuple[str, str] | None,
    timeout_s: float,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
    **given: Any,
) -> None:
    """Wait until a replica or a table has reached a state.

    Give one of --replica, --partition and --range. The exit code is 0 if the condition is true, 3 if it was
    not true in time, 4 if the daemon or its source is unavailable, and 5 if a name is unknown.
    """
    from state.errors import NotFound, NotYet, Transient

    chosen = [name for name in ("replica", "partition") if given[name]] + (["range"] if span else [])
    if len(chosen) != 1:
        raise click.UsageError("Give one of --replica, --partition and --range.")
    parameters = {name: str(value) for name, value in given.items() if value is not None}
    if span is not None:
        parameters |= {"column": span[0], "range": span[1]}
    try:
        answer = _wait(require_daemon(config_path, daemon), parameters, timeout_s)
    except (NotYet, Transient, NotFound) as error:
        print_failure(error, output_form())
        ctx.exit(_exit_code(error))
    if answer["left_out"] and not as_json:
        print_text(f"not up to date: {', '.join(answer['left_out'])}", err=True)
    echo(answer, as_json, _text)


def _exit_code(error: Exception) -> int:
    from state.errors import NotFound, NotYet

    if isinstance(error, NotYet):
        return NOT_YET
    return UNKNOWN if isinstance(error, NotFound) else UNAVAILABLE


def _wait(
    daemon: DaemonAddress,
    parameters: Mapping[str, str],
    timeout_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Return the answer; repeat requests until the timeout. Raises NotYet, NotFound, Transient."""
    from daemon.status.client import fetch_json
    from state.errors import NotYet, Overloaded

    asked, end_s = dict(parameters), clock() + timeout_s
    while True:
        asked["timeout_s"] = f"{min(REQUEST_S, max(0.0, end_s - clock())):.3f}"
        try:
            return fetch_json(daemon, "/api/v1/wait", asked, timeout_s=float(asked["timeout_s"]) + ANSWER_S)
        except NotYet as error:
            if clock() >= end_s:
                raise
            wanted = error.context.get("wanted_event_id")
            if wanted is not None:  # the event of the first request: the wait does not include later events
                asked["event"] = str(wanted)
        except Overloaded:
            if clock() + RETRY_S >= end_s:
                raise
            pause(RETRY_S)


def _text(answer: dict[str, Any]) -> str:
    at = "" if answer["event_id"] is None else f", as of event {answer['event_id']} of {answer['source']}"
    return f"true after {answer['waited_s']:.1f} s{at}"
