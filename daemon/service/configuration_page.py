"""The effective configuration as a page and over HTTP, for operators: it names hosts and directories."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import TypeAdapter

from daemon.config.shown import show_settings
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.http.transport.answering import Lane
from daemon.service.configuration import config_reader
from daemon.site.pages import Asked, PageRoute, require_operator
from daemon.state_directory.directory import open_stores
from daemon.terminal.application import version_text
from state.value_text import value_text


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from daemon.config.document import Key
    from daemon.config.model import Config


PATH: Final = f"{BASE}/configuration"


def configuration_route(config: Config) -> ApiRoute:
    """Return the route of ``tideline config show --url``; secrets are masked."""

    def show(_name: str, _parameters: Parameters) -> dict[str, Any]:
        return show_settings(config.model_dump(mode="json"))

    operation = Operation(
        path=PATH,
        tag="Status",
        summary="The effective settings of the daemon, defaults included, for operators.",
        answer=TypeAdapter(dict[str, Any]),
    )
    return ApiRoute(operation, build_endpoint(Parameters, show, lane=Lane.MEMORY, operators_only=True))


@dataclass(frozen=True, slots=True)
class SetValue:
    """A setting that is set."""

    name: str
    value: str
    origin: str
    """A line of the file, or an environment variable."""


def configuration_page(config: Config, file: Path | None) -> PageRoute:
    """Return the route of the page: the set values with their origins, and the output of ``tideline config
    show``. Secrets are masked.
    """

    def values(asked: Asked) -> dict[str, Any]:
        require_operator(asked, "the configuration")
        # Made for each request, because requests are rare and the text would otherwise stay in memory.
        settings = show_settings(config.model_dump(mode="json"), quantities=True)
        places = config_reader().read(file).places
        return {
            "file": file,
            "version": version_text(),
            "python": platform.python_version(),
            "stores": sorted(
                (Path(path).name, store.schema_version) for path, store in open_stores().items()
            ),
            "sections": [
                (
                    name,
                    list(_list_set({name: section}, places)),
                    yaml.safe_dump({name: section}, sort_keys=False),
                )
                for name, section in settings.items()
            ],
        }

    return PageRoute("/configuration", "configuration.html", values, entry="Configuration", lane=Lane.MEMORY)


def _list_set(settings: dict[str, Any], places: Mapping[Key, str], above: Key = ()) -> Iterator[SetValue]:
    """Yield the settings that the file or the environment sets, in their order."""
    for name, value in settings.items():
        key = (*above, name)
        if isinstance(value, dict) and value:
            yield from _list_set(value, places, key)
        elif place := places.get(key):
            file, _, line = place.rpartition(":")
            text = ", ".join(map(value_text, value)) if isinstance(value, list) else value_text(value)
            yield SetValue(".".join(key[1:]), text, f"line {line}" if file else place)
