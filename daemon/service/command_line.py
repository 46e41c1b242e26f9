"""The command line: ``tideline COMMAND``. Exit codes are 0 done, 1 failed, 2 wrong usage.

An error that Tideline can name is two or three lines on standard error: what happened, the values it is about, what to do. A
traceback is for defects, and for ``--debug``. Commands are loaded when they are called: ``--help`` imports nothing but click.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from daemon.service.capabilities import CAPABILITIES, all_commands
from daemon.terminal.layout import failure_lines


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.config.load import ConfigReader
    from daemon.status.model import StatusSection


C = TypeVar("C")


class Assembly:
    """The assembled program, as commands see it (``daemon.terminal.application.Application``)."""

    def config_reader(self) -> ConfigReader:
        """Return the reader of configurations with the sections of all capabilities."""
        from daemon.service.configuration import config_reader

        return config_reader()

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the status sections of all capabilities."""
        from daemon.service.assembly import all_sections

        return all_sections()

    def capability(self, kind: type[C]) -> C:
        """Return the capability of a class."""
        return next(capability for capability in CAPABILITIES if isinstance(capability, kind))


class _LazyGroup(click.Group):
    """A group that knows its commands' names and first lines, and loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        found = all_commands().get(cmd_name)
        if found is None:
            return None
        command: click.Command = getattr(import_module(found.module), found.name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(command.name, command.help) for command in all_commands().values()])


def _print_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from daemon.terminal.application import version_text

        click.echo(f"tideline {version_text()}")
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
    ctx.obj = {"debug": debug, "application": Assembly()}


def call(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = tideline.main(args=given, prog_name="tideline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("aborted", err=True)
        return 1
    except BrokenPipeError:
        return 1
    except Exception as error:
        if debug:
            raise
        for line in failure_lines(error):
            click.echo(line, err=True)
        return 1
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Entry point of the console script."""
    sys.exit(call())
