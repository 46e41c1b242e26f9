"""The page of the effective configuration, for operators: it names hosts, directories and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from daemon.config.shown import show_settings
from daemon.http.transport.answering import Lane
from daemon.site.pages import Asked, PageRoute
from state.errors import Forbidden


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config.model import Config


def configuration_page(config: Config, file: Path | None) -> PageRoute:
    """Return the route of the page. It has the settings of ``tideline config show``; secrets are masked."""

    def values(asked: Asked) -> dict[str, Any]:
        if not asked.may_operate:
            hint = "Sign in with a token that has the role 'operate'."
            raise Forbidden("the configuration is shown to operators only", hint=hint)
        # Made at each request: it is rare, and a text for each daemon would stay in memory.
        settings = show_settings(config.model_dump(mode="json"), quantities=True)
        return {
            "file": file,
            "sections": [
                (name, yaml.safe_dump({name: section}, sort_keys=False)) for name, section in settings.items()
            ],
        }

    return PageRoute("/configuration", "configuration.html", values, entry="Configuration", lane=Lane.MEMORY)
