"""The protocol through which commands use the program (configuration and capabilities), and their shared
options and output.

Commands belong to capabilities, which must not import the assembly. Instead, the assembly implements the
protocol ``Application`` and passes itself to commands in click's context.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

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

    If there is neither a file nor a source in the environment, prints a line about that to standard error,
    because errors about missing settings usually follow.
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


COMPLETION: Final = "_TIDELINE_COMPLETE"
"""The variable with which the script of a shell requests completions; click reads it."""
LOCAL: Final = "Runs on the daemon's machine, with its state directory and configuration, and has no --url."
"""Part of the help of every command that reads the configuration and cannot query a remote daemon."""


def say_where_it_runs(command: click.Command | None) -> click.Command | None:
    """Add to the help of a command that it works only on the daemon's machine."""
    names = [] if command is None else [option.name for option in command.params]
    if command is not None and "config_path" in names and "daemon" not in names and "url" not in names:
        command.epilog = LOCAL
    return command


class CommandGroup(click.Group):
    """A group whose help shows the whole first sentence of each command, which click would truncate."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, whose help says where it runs."""
        return say_where_it_runs(super().get_command(ctx, cmd_name))

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
        help="Configuration file (default: ./tideline.yaml or /etc/tideline/tideline.yaml).",
    )(command)


FORMS: Final = ("text", "wide", "json", "yaml", "name")
_FORM: Final = "tideline.output"


def output_form() -> str:
    """Return the output form of the current command."""
    context = click.get_current_context(silent=True)
    return "text" if context is None else str(context.meta.get(_FORM, "text"))


def shown_max(number: int) -> int:
    """Return the number of lines to show: ``number``, or unlimited with ``-o wide``."""
    return sys.maxsize if output_form() == "wide" else number


def json_option(command: Command) -> Command:
    """Add ``-o FORM`` and ``--json``, passed as ``as_json``: whether to print data instead of text."""

    def choose(ctx: click.Context, _option: click.Parameter, form: str | None) -> None:
        if form is not None:
            ctx.meta[_FORM] = form

    def choose_data(ctx: click.Context, _option: click.Parameter, given: bool) -> bool:
        if given:
            ctx.meta[_FORM] = "json"
        return ctx.meta.get(_FORM, "text") not in {"text", "wide"}

    form = click.option(
        "-o",
        "--output",
        type=click.Choice(FORMS),
        is_eager=True,
        expose_value=False,
        callback=choose,
        help="Form of the output; 'name' prints only names, and 'wide' prints everything.",
    )
    return form(
        click.option("--json", "as_json", is_flag=True, callback=choose_data, help="Short for -o json.")(
            command
        )
    )


def echo(answer: Answer, as_json: bool, text: Callable[[Answer], str]) -> None:
    """Print ``answer`` as data, or as the text that ``text`` returns."""
    if as_json:
        echo_json(answer)
    else:
        print_text(text(answer))


def print_text(text: str, *, err: bool = False, nl: bool = True, colours: bool = False) -> None:
    """Print one or several lines like ``click.echo``, with control characters escaped.

    Commands print only through this module, because nearly every text contains names from other systems. With
    ``colours``, states are coloured on a terminal.
    """
    from daemon.terminal.layout import escape_controls, paint

    escaped = escape_controls(text)
    click.echo(paint(escaped) if colours else escaped, err=err, nl=nl)  # noqa: TID251 - the text is escaped


def echo_json(value: object, *, records: str | None = None) -> None:
    """Print ``value`` as indented JSON or, as ``-o`` says, as YAML or only the names of its records.

    ``records`` is the member with the records; by default, the first list of objects.
    """
    _echo_data(value, output_form(), records)


def print_failure(error: Exception, form: str, words: Sequence[str] = ()) -> None:
    """Print an error to standard error, as text or in the form of the command's output.

    ``words`` are the arguments of the command line.
    """
    from daemon.terminal.layout import describe_failure, failure_lines, usage_context

    if form in {"json", "yaml"}:
        failure = describe_failure(error)
        context = usage_context(error, words) if isinstance(error, click.UsageError) else failure.context
        said = {"code": failure.code, "message": failure.message, "hint": failure.hint}
        _echo_data({"error": said | {"context": context}}, form, err=True)
    else:
        print_text("\n".join(failure_lines(error)), err=True)


def _echo_data(value: object, form: str, records: str | None = None, *, err: bool = False) -> None:
    import orjson

    from daemon.terminal.layout import escape_json_controls, record_names
    from state.value_text import value_text

    written = orjson.dumps(value, default=value_text, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
    if form == "name":
        for name in record_names(orjson.loads(written), records):
            print_text(name, err=err)
    elif form == "yaml":
        import yaml

        text = yaml.safe_dump(orjson.loads(written), sort_keys=False, allow_unicode=True)
        print_text(text, err=err, nl=False)
    else:
        click.echo(escape_json_controls(written.decode()), err=err)  # noqa: TID251 - the text is escaped
