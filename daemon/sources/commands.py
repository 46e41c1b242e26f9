"""``tideline files check``: whether a directory can be read and written as replicas do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from daemon.terminal.application import load_config
from daemon.terminal.options import config_option, echo, json_option


if TYPE_CHECKING:
    from pathlib import Path


@click.group()
def files() -> None:
    """Check access to file systems."""


@files.command()
@click.argument("uri")
@config_option
@json_option
@click.option("--read-only", is_flag=True, help="Only list the directory; write nothing.")
def check(uri: str, config_path: Path | None, as_json: bool, read_only: bool) -> None:
    """List, write, read, replace and remove files in the directory URI, with the settings of 'files'.

    The files have names that Hive and Spark ignore, and are removed again. The first call that fails ends the command with 1.
    """
    from daemon.sources.file_check import FileCheck
    from handlers.files.paths import parse_location
    from handlers.files.systems.schemes import open_file_systems

    place = parse_location(uri)
    systems = open_file_systems(load_config(config_path).files.all_options())
    checked = FileCheck(systems.of(place), place)
    checked.read()
    if not read_only:
        checked.write()
    echo({"uri": uri, "steps": checked.steps}, as_json, _to_text)


def _to_text(checked: dict[str, Any]) -> str:
    lines = [f"{step.name:28} {step.seconds:8.3f} s" for step in checked["steps"]]
    return "\n".join([*lines, f"{checked['uri']}: no problems"])
