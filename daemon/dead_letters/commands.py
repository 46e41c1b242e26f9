"""``tideline dlq list | show | replay``: dead letters."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from daemon.config.quantities import WholeNumber
from daemon.status.address import daemon_option
from daemon.status.client import fetch_json, send_action
from daemon.terminal.application import (
    CommandGroup,
    config_option,
    echo,
    json_option,
    load_config,
    shown_max,
)
from daemon.terminal.layout import escape_controls, left_aligned


if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from daemon.kafka.dead_letter_reader import DeadLetterReader
    from daemon.status.address import DaemonAddress


_PATH: Final = "/api/v1/dead-letters"
REPLAY_S: Final = 60.0
VALUE_CHARACTERS_MAX: Final = 4000


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List, show and replay dead letters: undecodable records."""


@dlq.command("list")
@config_option
@json_option
@daemon_option
def list_command(config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """List the dead letters, oldest first; with --url only the last 200."""
    if daemon is None:
        from daemon.dead_letters.routes import describe_letter

        with _open_reader(config_path) as reader:
            letters = [asdict(describe_letter(letter)) for letter in reader.read_all()]
    else:
        letters = fetch_json(daemon, _PATH, {})["letters"][::-1]
    echo(letters, as_json, _list_text)


@dlq.command()
@click.argument("number", type=WholeNumber(min=0))
@config_option
@json_option
@daemon_option
def show(number: int, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """Show one dead letter with its contents."""
    if daemon is None:
        from daemon.dead_letters.routes import show_letter

        with _open_reader(config_path) as reader:
            letter = asdict(show_letter(reader.read(number)))
    else:
        letter = fetch_json(daemon, f"{_PATH}/{number}", {})
    echo(letter, as_json, _letter_text)


def _letter_text(letter: dict[str, Any]) -> str:
    value = letter["value"]
    shown = value[: shown_max(VALUE_CHARACTERS_MAX)]
    if len(shown) < len(value):
        shown += f"… ({len(value)} characters)"
    return "\n".join([*(f"{name:10} {text}" for name, text in _row(letter).items()), "", shown])


@dlq.command()
@click.argument("number", type=WholeNumber(min=0))
@config_option
@json_option
@daemon_option
@click.pass_context
def replay(
    ctx: click.Context,
    number: int,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Decode a dead letter again with this version, or with the daemon of --url; exit with 1 if that fails
    again.
    """
    if daemon is None:
        with _open_reader(config_path) as reader:
            replayed = reader.replay(reader.read(number))
        answer = {"number": number, "outcome": replayed.outcome.value, "problem": replayed.problem}
    else:
        answer = send_action(daemon, f"{_PATH}/{number}", {"do": "replay"}, timeout_s=REPLAY_S)
    echo(answer, as_json, _replay_text)
    ctx.exit(1 if answer["outcome"] == "unreadable" else 0)


def _replay_text(answer: dict[str, Any]) -> str:
    problem = f": {answer['problem']}" if answer["problem"] else ""
    return f"{answer['number']}: {answer['outcome']}{problem}"


def _open_reader(config_path: Path | None) -> AbstractContextManager[DeadLetterReader]:
    from daemon.kafka.broker import broker_settings
    from daemon.kafka.dead_letter_reader import DeadLetterReader
    from state.errors import ConfigError

    config = load_config(config_path)
    if config.kafka is None:
        raise ConfigError("no broker is configured", hint="Set kafka.bootstrap.", key="kafka.bootstrap")
    return DeadLetterReader(broker_settings(config.kafka), config.kafka.dead_letter_topic)


def _row(letter: dict[str, Any]) -> dict[str, str]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(letter["at_s"]))
    named = {
        "number": letter["number"],
        "time": at,
        "topic": letter["topic"],
        "offset": letter["offset"],
        "event": letter["event_id"],
        "reader": letter["reader"],
        "code": letter["code"],
        "reason": letter["reason"],
    }
    return {name: "-" if value is None else escape_controls(str(value)) for name, value in named.items()}


def _list_text(letters: list[dict[str, Any]]) -> str:
    if not letters:
        return "there are no dead letters"
    rows = [_row(letter) for letter in letters]
    return "\n".join(
        left_aligned([[name.upper() for name in rows[0]], *(list(row.values()) for row in rows)])
    )
