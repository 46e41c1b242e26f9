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

- **Where.** Commands with `--url` (or `TIDELINE_URL`) work from any machine, with a token from
  `--token-file`. All others run beside the state directory of the daemon, with its configuration.
- **Output.** `-o json`, `-o yaml` and `-o name` are for programs. `-o wide` leaves nothing out. Colours
  appear on terminals only, and not if `NO_COLOR` is set.
- **Errors** go to standard error and begin with `Error [CODE]:`; [Errors](ERRORS.md) lists the codes. With
  `-o json` they are JSON as well. Exit codes are 0 for success, 1 for failure and 2 for wrong usage.
- **Completion**: add `source <(tideline completion bash)` to `~/.bashrc`.

`make cli-page` writes this page; a test compares the two.
"""


def page_text() -> str:
    """Return the text of the page."""
    context = click.Context(tideline, info_name="tideline")
    parts = [_INTRODUCTION.rstrip()]
    for heading, commands in command_groups().items():
        parts.append(f"## {heading}")
        for each in commands:
            command = tideline.get_command(context, each.name)
            assert command is not None
            parts += _helps(command, context, each.name)
    return "\n\n".join(parts) + "\n"


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
