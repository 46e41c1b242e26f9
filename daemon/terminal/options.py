"""Options that several commands share, and the output of ``--json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click


if TYPE_CHECKING:
    from collections.abc import Callable


Command = TypeVar("Command", bound="Callable[..., Any]")
Answer = TypeVar("Answer")


def config_option(command: Command) -> Command:
    """Add ``--config FILE``, passed as ``config_path``."""
    return click.option(
        "-c",
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="TIDELINE_CONFIG",
        help="Configuration file (default: ./tideline.yaml, else /etc/tideline/tideline.yaml).",
    )(command)


def json_option(command: Command) -> Command:
    """Add ``--json``, passed as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def echo(answer: Answer, as_json: bool, text: Callable[[Answer], str]) -> None:
    """Print ``answer`` as JSON, or as the text that ``text`` returns."""
    if as_json:
        echo_json(answer)
    else:
        click.echo(text(answer))


def echo_json(value: object) -> None:
    """Print ``value`` as indented JSON."""
    import orjson

    click.echo(
        orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
    )
