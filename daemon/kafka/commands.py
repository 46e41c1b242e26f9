"""``tideline dlq list | show | replay``: dead letters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from daemon.terminal.application import CommandGroup, config_option, echo_json, json_option, print_text
from daemon.terminal.layout import escape_controls, left_aligned


if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from daemon.kafka.dead_letter_reader import DeadLetter, DeadLetterReader


VALUE_CHARACTERS_MAX: Final = 4000


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List, show and replay dead letters: records that could not be decoded."""


@dlq.command("list")
@config_option
@json_option
def list_command(config_path: Path | None, as_json: bool) -> None:
    """List the dead letters, oldest first."""
    with _open_reader(config_path) as reader:
        rows = [_row(letter) for letter in reader.read_all()]
    if as_json:
        echo_json(rows)
    else:
        print_text("\n".join(_lines(rows)))


@dlq.command()
@click.argument("number", type=click.IntRange(min=0))
@config_option
@json_option
def show(number: int, config_path: Path | None, as_json: bool) -> None:
    """Show one dead letter with its contents."""
    with _open_reader(config_path) as reader:
        letter = reader.read(number)
    value = (letter.value or b"").decode(errors="backslashreplace")
    if as_json:
        echo_json(_row(letter) | {"value": value})
        return
    for name, text in _row(letter).items():
        print_text(f"{name:10} {text}")
    shown = (
        value
        if len(value) <= VALUE_CHARACTERS_MAX
        else f"{value[:VALUE_CHARACTERS_MAX]}… ({len(value)} characters)"
    )
    print_text(f"\n{shown}")


@dlq.command()
@click.argument("number", type=click.IntRange(min=0))
@config_option
@json_option
@click.pass_context
def replay(ctx: click.Context, number: int, config_path: Path | None, as_json: bool) -> None:
    """Decode a dead letter again with this version; exit with 1 if it still cannot be decoded."""
    from daemon.kafka.dead_letter_reader import ReplayOutcome

    with _open_reader(config_path) as reader:
        replayed = reader.replay(reader.read(number))
    if as_json:
        echo_json({"number": number, "outcome": replayed.outcome.value, "problem": replayed.problem})
    else:
        print_text(f"{number}: {replayed.outcome.value}{f': {replayed.problem}' if replayed.problem else ''}")
    ctx.exit(1 if replayed.outcome is ReplayOutcome.UNREADABLE else 0)


def _open_reader(config_path: Path | None) -> AbstractContextManager[DeadLetterReader]:
    from daemon.kafka.broker import broker_settings
    from daemon.kafka.dead_letter_reader import DeadLetterReader
    from daemon.terminal.application import load_config
    from state.errors import ConfigError

    config = load_config(config_path)
    if config.kafka is None:
        raise ConfigError("no broker is configured", hint="Set kafka.bootstrap.", key="kafka.bootstrap")
    return DeadLetterReader(broker_settings(config.kafka), config.kafka.dead_letter_topic)


def _row(letter: DeadLetter) -> dict[str, Any]:
    error = letter.error
    return {
        "number": letter.number,
        "time": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(letter.put_at_s)),
        "topic": error.get("topic", "-"),
        "offset": error.get("offset", "-"),
        "event": error.get("event_id", "-"),
        "reader": error.get("reader", "-"),
        "code": error.get("code", "-"),
        "reason": error.get("message", "-"),
    }


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        yield "there are no dead letters"
        return
    names = list(rows[0])
    texts = [
        [name.upper() for name in names],
        *([escape_controls(str(row[name])) for name in names] for row in rows),
    ]
    yield from left_aligned(texts)
