"""Writes docs/CLI.md: the help of every command, as the program prints it. ``make cli-page`` runs this."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from daemon.service.capabilities import command_groups
from daemon.service.command_line import tideline


PAGE: Final = Path(__file__).parents[1] / "docs" / "CLI.md"
WIDTH: Final = 100
_INTRODUCTION: Final = """\
# Command line

The help of every command. `tideline COMMAND --help` prints the same.

- **Where.** Commands that a daemon answers have `--url` (or `TIDELINE_URL`) and work from any machine, with a
  token from `--token-file`. [The others](#commands-without-an-address) run on the machine with the state
  directory of the daemon, with its configuration.
- **Output.** `-o json`, `-o yaml` and `-o name` are for programs. `-o wide` omits nothing. Colours appear on
  terminals only, and not if `NO_COLOR` is set.
- **Errors** go to standard error and begin with `Error [CODE]:`; [Errors](ERRORS.md) lists the codes. With
  `-o json` they are JSON as well. Exit codes are 0 for success, 1 for failure and 2 for wrong usage.
- **Completion**: add `source <(tideline completion bash)` to `~/.bashrc`.

`make cli-page` writes this page; a test compares the two.

## Commands without an address

These commands have no `--url`:

| command | why |
|---|---|
{local}
"""
LOCAL: Final = {
    "run": "is the daemon",
    "relay": "is a daemon",
    "serve": "is a server",
    "split run": "is the driver of a flat table; the daemon runs it, too",
    "keys mine": "is the miner; the daemon runs it, too, with `mining.every_s`",
    "backup": "writes a directory of the daemon's machine",
    "restore": "replaces the state that a daemon would use",
    "config check": "checks a file before a daemon uses it",
    "config schema": "prints all settings of this version",
    "files check": "checks which paths this machine and its user may read and write",
    "completion": "prints a script for a shell",
    "docs": "shows the documentation of this version",
    "version": "prints the version of this command; `status` has that of the daemon",
    "keys forget": "deletes rows of the database; the miner of a daemon does, too",
    "split try": "needs no daemon",
    "split prepare": "writes an archive for the drivers of this machine",
    "split seal": "runs Spark on this machine, while no driver runs",
    "split backfill": "as `split seal`",
    "split narrow": "as `split seal`",
    "split plan": "runs Spark on this machine",
    "split files": "lists the files of a table",
    "split view": "writes a view through the metastore",
}
"""The commands without ``--url``, and why."""


def page_text() -> str:
    """Return the text of the page."""
    context = click.Context(tideline, info_name="tideline")
    rows = [f"| `{name}` | {reason} |" for name, reason in LOCAL.items()]
    parts = [_INTRODUCTION.rstrip().format(local="\n".join(rows))]
    for heading, commands in command_groups().items():
        parts.append(f"## {heading}")
        for each in commands:
            command = tideline.get_command(context, each.name)
            assert command is not None
            parts += _helps(command, context, each.name)
    return "\n\n".join(parts) + "\n"


def commands_with_url(command: click.Command, name: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the name of each command that is not a group, and whether it has ``--url``."""
    if not isinstance(command, click.Group):
        yield name, any(option.name in {"url", "daemon"} for option in command.params)
        return
    context = click.Context(command)
    for inner in command.list_commands(context):
        below = command.get_command(context, inner)
        if below is not None and not below.hidden:
            yield from commands_with_url(below, f"{name} {inner}".strip())


def _helps(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    context = click.Context(
        command,
        above,
        name,
        help_option_names=["-h", "--help"],
        max_content_width=WIDTH,
        terminal_width=WIDTH,
    )
    yield f"### {context.command_path}\n\n```text\n{command.get_help(context)}\n```"
    for inner in getattr(command, "commands", {}):
        below = command.get_command(context, inner) if isinstance(command, click.Group) else None
        if below is not None and not below.hidden:
            yield from _helps(below, context, inner)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text())


if __name__ == "__main__":
    main()
