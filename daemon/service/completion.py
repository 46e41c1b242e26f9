"""``tideline completion``: scripts with which shells complete commands, options and names.

Click completes commands and options. Names of policies and sources come from the configuration, names of
tables also from the last status, so a completion sends no request. If it fails, it offers nothing, because an
error would appear in the middle of the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from daemon.config.model import Config
from daemon.terminal.application import COMPLETION, print_text


_KINDS: Final = {
    "policy": "policy",
    "replica": "policy",
    "source": "source",
    "gap_of": "source",
    "table": "table",
    "tables": "table",
}
"""Kind of a command parameter's value, by the name of the parameter."""


class NameType(click.types.StringParamType):
    """A name, completed from the configuration or the last status. Any other name is valid as well."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the known names that begin with the given text."""
        del param
        names: set[str] = set()
        with suppress(Exception):
            names = set(_read_names(self._kind, ctx.params.get("config_path")))
        return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_names(command: click.Command) -> None:
    """Make the parameters of a command, or of all commands of a group, complete names."""
    for inner in getattr(command, "commands", {}).values():
        complete_names(inner)
    for parameter in command.params:
        kind = _KINDS.get(parameter.name or "")
        if kind is not None and type(parameter.type) is click.types.StringParamType:
            parameter.type = NameType(kind)


def _read_names(kind: str, config_path: Path | None) -> Iterator[str]:
    from daemon.config.load import find_file
    from daemon.service.configuration import config_reader

    config = config_reader().read(find_file(config_path)).config
    if config is None:
        return
    if kind == "policy":
        yield from config.policies
    elif kind == "source":
        yield from config.sources
    else:
        yield from _read_tables(config)


def _read_tables(config: Config) -> Iterator[str]:
    """Yield the tables that the configuration or the last status names."""
    import orjson

    from daemon.state_directory.directory import STATUS_FILE

    values: dict[str, Any] = config.model_dump(mode="json")
    for flat in values.get("flat", {}).values():
        yield flat["table"]
    for fact in values.get("facts", {}).values():
        yield from fact["tables"]
    with suppress(OSError):
        status = orjson.loads((config.state.dir / STATUS_FILE).read_bytes())
        for view in status["projections"]:
            yield from view["quarantined"]
            yield from (each["table"] for each in view["failures"])


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands, options and names.

    bash: add 'source <(tideline completion bash)' to ~/.bashrc. zsh: the same, in ~/.zshrc. fish: write it to
    ~/.config/fish/completions/tideline.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    print_text(kind(ctx.find_root().command, {}, "tideline", COMPLETION).source())
