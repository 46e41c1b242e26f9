"""The program as its commands see it: configuration, capabilities and version; shared options and output.

Commands belong to capabilities, which must not import the assembly. The assembly therefore implements the
protocol ``Application`` and passes itself to commands in click's context.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.config.load import ConfigReader
    from daemon.config.model import Config


C = TypeVar("C")


class Application(Protocol):
    """The program with all its capabilities."""

    def config_reader(self) -> ConfigReader:
        """Return the reader of configurations with the sections of all capabilities."""

    def status_sections(self) -> Sequence[Any]:
        """Return the status sections (``daemon.status.model.StatusSection``) of all capabilities."""

    def capability(self, kind: type[C]) -> C:
        """Return the capability of a class."""


def application() -> Application:
    """Return the program that the current command is part of."""
    found: Application = click.get_current_context().find_root().obj["application"]
    return found


def load_config(config_path: Path | None) -> Config:
    """Return the configuration of ``--config``, or of the first default path that exists; raise ConfigError.

    Without a file, and without a source in the environment, a line on standard error says so: what follows is
    usually an error about something that the missing file would have contained.
    """
    from daemon.config.load import DEFAULT_PATHS, find_file

    path = find_file(config_path)
    config = application().config_reader().load(path)
    if path is None and not config.sources:
        looked_for = ", ".join(str(default) for default in DEFAULT_PATHS)
        print_text(f"No configuration file found ({looked_for}). Name one with --config.", err=True)
    return config


def version_text() -> str:
    """Return the version of the distribution; ``0+source`` for a source tree that is not installed."""
    # Imported here, because --help does not need it.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tideline")
    except PackageNotFoundError:
        return "0+source"


class CommandGroup(click.Group):
    """A group whose help shows the first sentence of each command completely; click cuts it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and the first sentences of the commands."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(1000)) for name, command in named if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


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
        print_text(text(answer))


def print_text(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text of one or several lines, as ``click.echo`` does, with its control characters escaped.

    Commands print only with this module, because nearly every text contains names of others.
    """
    from daemon.terminal.layout import escape_controls

    click.echo(escape_controls(text), err=err, nl=nl)  # noqa: TID251 - the text is escaped


def echo_json(value: object) -> None:
    """Print ``value`` as indented JSON."""
    import orjson

    from daemon.terminal.layout import escape_json_controls

    written = orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    click.echo(escape_json_controls(written.decode()))  # noqa: TID251 - the text is escaped
