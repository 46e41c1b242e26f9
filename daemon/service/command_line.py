"""The command line: ``tideline COMMAND``. Exit codes: 0 success, 1 failure, 2 wrong usage.

It prints an error of the tree to standard error, in two or three lines: the message, the values of its
context, and the hint. ``--debug`` shows tracebacks. A command is imported when called, so ``--help`` imports
nothing but click.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from daemon.service.capabilities import CAPABILITIES, all_commands, all_sections, command_groups
from daemon.terminal.application import COMPLETION, CommandGroup, print_failure, print_text, say_where_it_runs


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.config.load import ConfigReader
    from daemon.status.model import StatusSection


C = TypeVar("C")


class TidelineApplication:
    """The program with all its capabilities (``daemon.terminal.application.Application``)."""

    def config_reader(self) -> ConfigReader:
        """Return the reader of the configuration with the sections of all capabilities."""
        from daemon.service.configuration import config_reader

        return config_reader()

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the status sections of all capabilities."""
        return all_sections()

    def capability(self, kind: type[C]) -> C:
        """Return the capability of a class."""
        return next(capability for capability in CAPABILITIES if isinstance(capability, kind))


class _LazyGroup(CommandGroup):
    """A group that knows the names and help texts of its commands, and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(all_commands())

    # ARG002: click's signature
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = all_commands().get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.name)
        if COMPLETION in os.environ:
            from daemon.service.completion import complete_names

            complete_names(command)
        return say_where_it_runs(command)

    # ARG002: click's signature
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading, commands in command_groups().items():
            with formatter.section(heading):
                formatter.write_dl([(command.name, command.help) for command in commands])


def _print_version(ctx: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        from daemon.terminal.application import version_text

        print_text(f"tideline {version_text()}")
        ctx.exit()


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("--debug", is_flag=True, help="Show tracebacks of failures.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.pass_context
def tideline(ctx: click.Context, debug: bool) -> None:
    """Replicate Hive databases, and maintain timelines, a partition index and flat event tables."""
    ctx.obj = {"debug": debug, "application": TidelineApplication()}


def call(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        code = tideline.main(args=words, prog_name="tideline", standalone_mode=False)
    except BrokenPipeError:
        return 1
    except Exception as error:
        if debug and not isinstance(error, click.ClickException | click.Abort):
            raise
        data = re.search(r"(?:^| )(?:--(json)\b|(?:-o ?|--output[ =])(json|yaml)\b)", " ".join(words))
        print_failure(error, "text" if data is None else data[1] or data[2], words)
        return error.exit_code if isinstance(error, click.ClickException) else 1
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Run a command and exit: the entry point of the console script."""
    sys.exit(call())
