"""The command line: ``tideline COMMAND``. Exit codes are 0 done, 1 failed, 2 wrong usage.

An error that Tideline can name is two or three lines on standard error: what happened, the values it is about, what to do. A
traceback is for defects, and for ``--debug``. Commands are loaded when they are called: ``--help`` imports nothing but click.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

import click

from daemon.terminal.failures import failure_lines


if TYPE_CHECKING:
    from collections.abc import Sequence


_COMMANDS: Final = {
    "bootstrap": (
        "daemon.service.commands",
        "bootstrap",
        "Make a policy's replica, once, before it is followed.",
    ),
    "config": ("daemon.service.config_commands", "config", "Check, show and describe the configuration."),
    "dlq": ("daemon.kafka.commands", "dlq", "List, show and replay records that could not be used."),
    "partitions": (
        "daemon.partitions.commands",
        "partitions",
        "Ask the partition index, explain its answers, load and check it.",
    ),
    "keys": ("daemon.keys.commands", "keys", "Show which JSON keys people ask for, and decide about them."),
    "executor": ("daemon.flat.commands", "executor", "Be a Spark executor: what Spark starts in its pods."),
    "relay": (
        "daemon.service.commands",
        "relay",
        "Publish the sources' notification logs, and do nothing else.",
    ),
    "run": ("daemon.service.commands", "run", "Run the daemon: relays, projections, flat tables."),
    "split": ("daemon.flat.commands", "split", "Run, seal, backfill and plan flat tables."),
    "status": ("daemon.status.commands", "status", "Show how far everything is, and what does not run."),
    "timeline": (
        "daemon.timelines.commands",
        "timeline",
        "Show which partitions exist and how they cover a range of time.",
    ),
    "version": ("daemon.status.commands", "version", "Print the version."),
}


class _LazyGroup(click.Group):
    """A group that knows its commands' names and first lines, and loads a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


def _print_version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from daemon.process.version import version_text

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
    """Follow a Hive metastore's notification events and keep a replica, timelines, a partition index and flat tables true."""
    ctx.obj = {"debug": debug}


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
