"""How ``tideline partitions`` and ``tideline timeline`` ask: whom, for which source, and how answers are printed.

Both ask the running daemon, and open the state that it left where none runs. What says so on the command line, ``--source``,
``--url``, ``--config`` and ``--json``, reaches a command as one value, since no command looks at them one by one. Changes and
checks have no ``--url``: they are made on the daemon's own machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click

from daemon.terminal.application import application, load_config
from daemon.terminal.options import config_option, echo, json_option


if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from daemon.catalog.access import Access
    from daemon.catalog.branch import CatalogBranch


CHECK_ATTEMPTS: Final = 10
PAUSE_S: Final = 0.5
_source_option = click.option("--source", help="Name of the source, where several have the table.")
_url_option = click.option(
    "--url", help="Address of the daemon, such as http://host:8470 (else from the configuration)."
)


@dataclass(frozen=True, slots=True)
class Asking:
    """Whom a command asks, and how it prints what it is told."""

    source: str | None
    config_path: Path | None
    url: str | None = None
    as_json: bool = False

    def access(self, branch: CatalogBranch) -> AbstractContextManager[Access[Any]]:
        """Open the way to the answers of ``branch``; raise what ``catalog_access`` raises."""
        from daemon.catalog.access import catalog_access
        from daemon.catalog.capability import Catalog

        catalog = application().capability(Catalog)
        return catalog_access(catalog.tools(load_config(self.config_path)), branch, self.url)

    def echo(self, answer: dict[str, Any], text: Callable[[dict[str, Any]], str]) -> None:
        """Print an answer, as JSON or in words."""
        echo(answer, self.as_json, text)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """``--source``, ``--url``, ``--config`` and ``--json`` of a question, passed as ``asking``."""
    return _source_option(_url_option(config_option(json_option(_gathered(command)))))


def acts(command: Callable[..., None]) -> Callable[..., None]:
    """The same for what is done on the daemon's own machine: without ``--url``."""
    return _source_option(config_option(json_option(_gathered(command))))


def acts_in_words(command: Callable[..., None]) -> Callable[..., None]:
    """The same for what tells how far it is while it is done: without ``--json``."""
    return _source_option(config_option(_gathered(command)))


def _gathered(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def gathered(
        *args: Any,
        source: str | None,
        config_path: Path | None,
        url: str | None = None,
        as_json: bool = False,
        **others: Any,
    ) -> None:
        command(*args, asking=Asking(source, config_path, url, as_json), **others)

    return gathered


def checked(access: Access[Any], source: str | None, request: dict[str, Any]) -> dict[str, Any]:
    """Have one table checked; again, while it differs and the daemon is behind or the source moves."""
    for attempt in range(CHECK_ATTEMPTS):
        found = access.do(source, request)
        settled = not found["drift"] or not found["moving"] or not access.live
        if settled or attempt == CHECK_ATTEMPTS - 1:
            break
        time.sleep(PAUSE_S)
    return found
