"""The effective configuration as a page and over HTTP, for operators: it names hosts and directories."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import TypeAdapter

from daemon.config.shown import show_settings
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.transport.answering import Lane
from daemon.site.pages import Asked, PageRoute, require_operator
from daemon.state_directory.directory import open_stores
from daemon.terminal.application import version_text


if TYPE_CHECKING:
    from daemon.config.model import Config


PATH: Final = f"{BASE}/configuration"


def configuration_route(config: Config) -> ApiRoute:
    """Return the route of ``tideline config show --url``; secrets are masked."""

    def show(_name: str, _parameters: dict[str, str]) -> dict[str, Any]:
        return show_settings(config.model_dump(mode="json"))

    operation = Operation(
        path=PATH,
        tag="Status",
        summary="The effective settings of the daemon, defaults included, for operators.",
        answer=TypeAdapter(dict[str, Any]),
    )
    return ApiRoute(operation, build_endpoint((), show, lane=Lane.MEMORY, operators_only=True))


def configuration_page(config: Config, file: Path | None) -> PageRoute:
    """Return the route of the page. It has the settings of ``tideline config show``; secrets are masked."""

    def values(asked: Asked) -> dict[str, Any]:
        require_operator(asked, "the configuration")
        # Made at each request: it is rare, and a text for each daemon would stay in memory.
        settings = show_settings(config.model_dump(mode="json"), quantities=True)
        return {
            "file": file,
            "version": version_text(),
            "python": platform.python_version(),
            "stores": sorted(
                (Path(path).name, store.schema_version) for path, store in open_stores().items()
            ),
            "sections": [
                (name, yaml.safe_dump({name: section}, sort_keys=False)) for name, section in settings.items()
            ],
        }

    return PageRoute("/configuration", "configuration.html", values, entry="Configuration", lane=Lane.MEMORY)
