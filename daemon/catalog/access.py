"""Gives the command line access to catalogs, through the running daemon or through its state files.

A state file belongs to one process at a time. A running daemon is therefore queried over HTTP, and receives
changes as request files (``daemon.process.inbox``), or as actions of the API if it runs elsewhere. Without a
daemon, the command opens the state files itself, under the lock of the state directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final
from urllib.parse import quote

from daemon.catalog.branch import CatalogBranch, CatalogTools, OpenSource
from daemon.catalog.opening import OpenCatalog, open_catalog
from daemon.catalog.queries import Answer, Answers, Query, TableList
from daemon.catalog.settings import CATALOG
from daemon.config.model import Config
from daemon.http.operations import BASE
from daemon.http.parameters import write_parameters
from daemon.process.inbox import StillWorking, requests_directory, send_request
from daemon.state_directory.directory import state_lock, state_path
from daemon.status.address import DaemonAddress
from daemon.status.client import fetch_json, find_daemon, send_action
from state.errors import ConfigError, NotFound, TidelineError


CHANGE_TIMEOUT_S: Final = 300.0
"""How long a change may take on a running daemon: a rebuild lists all partitions of a table."""


@dataclass(frozen=True, slots=True)
class Access:
    """Answers the queries about one branch, and accepts requests about the tables of a source."""

    answers: Answers[Any]
    serve: Callable[[str, dict[str, Any]], dict[str, Any]]
    sources: Callable[[], Collection[str]]
    """Returns the sources with a catalog."""
    live: bool
    """Whether a running daemon answers."""

    def do(self, source: str | None, request: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return its answer; raise ConfigError if the source is ambiguous."""
        return self.serve(source or self._only_source(), request)

    def _only_source(self) -> str:
        names = self.sources()
        if len(names) != 1:
            hint = f"Give --source: {', '.join(names)}." if names else "Add a catalog to the configuration."
            raise ConfigError("several sources have a catalog", hint=hint, key="catalog")
        return next(iter(names))


@dataclass(frozen=True, slots=True)
class RemoteAnswers:
    """Sends the queries of all branches to a daemon elsewhere."""

    daemon: DaemonAddress

    def answer(self, query: Query) -> Answer:
        """Return the daemon's answer. Raises the error in the answer, and Transient if the daemon does not
        answer.
        """
        return fetch_json(self.daemon, query.url_path(), write_parameters(query))


def remote_access(daemon: DaemonAddress, branch: CatalogBranch) -> Access:
    """Return the access to a branch in a daemon on another machine; changes need the role *operate*."""
    answers = RemoteAnswers(daemon)

    def send(source: str, request: dict[str, Any]) -> dict[str, Any]:
        path = f"{BASE}/sources/{quote(source, safe='')}"
        return send_action(daemon, path, request, timeout_s=CHANGE_TIMEOUT_S)

    def sources() -> Collection[str]:
        (listing,) = (query for query in branch.queries() if issubclass(query, TableList))
        found: Collection[str] = answers.answer(listing(limit=0))["sources"]
        return found

    return Access(answers, send, sources, live=True)


@contextmanager
def catalog_access(tools: CatalogTools, branch: CatalogBranch) -> Iterator[Access]:
    """Return the access to a branch in the catalogs of the configured daemon.

    Raises ConfigError without a configured catalog, NotFound if it has no state yet, and StateLocked if a
    daemon has locked the state but does not answer.
    """
    config = tools.config
    if not CATALOG.of(config):
        raise ConfigError("no catalog is configured", hint="Add a source to 'catalog'.", key="catalog")
    configured = partial(CATALOG.of, config)
    address = find_daemon(config.state.dir)
    if address is not None:
        yield Access(RemoteAnswers(address), partial(_send_to_daemon, config), configured, live=True)
        return
    sources = _sources_with_state(config)
    with state_lock(config.state.dir), ExitStack() as stack:
        opened = {source: stack.enter_context(closing(open_catalog(tools, source))) for source in sources}
        views = [
            OpenSource(source, _find_view(catalog, branch))
            for source, catalog in opened.items()
            if branch.serves(config, source)
        ]
        answers = branch.answers(views, cache(lambda source: _read_newest(opened[source])))
        yield Access(answers, partial(_serve_here, opened), configured, live=False)


def _sources_with_state(config: Config) -> list[str]:
    """Return the sources whose catalogs have a state file. Raises NotFound if there are none, because a query
    must not create state files.
    """
    sources = [
        source for source in CATALOG.of(config) if state_path(config.state.dir, "catalog", source).is_file()
    ]
    if not sources:
        raise NotFound(
            "no daemon is running, and the catalog has no state yet",
            state_dir=str(config.state.dir),
            hint="Start the daemon with 'tideline run', or name the address of another with --url.",
        )
    return sources


def _find_view(catalog: OpenCatalog, branch: CatalogBranch) -> Callable[[], Any]:
    """Return a function that returns the branch's current view; requests may change the view."""
    is_readable = catalog.projection.read_state()
    return catalog.branches[branch.name].view if is_readable else lambda: None


def _read_newest(catalog: OpenCatalog) -> int | None:
    try:
        return catalog.metastore.current_event_id()
    except TidelineError:
        return None  # unknown in the answer


def _send_to_daemon(config: Config, source: str, request: dict[str, Any]) -> dict[str, Any]:
    absent = NotFound(
        "no catalog of this source runs here", source=source, hint="Run the command on the daemon's machine."
    )
    directory = requests_directory(config.state.dir, "catalog", source)
    return send_request(directory, request, CHANGE_TIMEOUT_S, absent)


def _serve_here(opened: dict[str, OpenCatalog], source: str, request: dict[str, Any]) -> dict[str, Any]:
    catalog = opened.get(source)
    if catalog is None or not catalog.projection.read_state():
        raise NotFound(
            "the source has no state yet", source=source, hint="Start the daemon with 'tideline run'."
        )
    while True:
        try:
            return catalog.do(request)
        except StillWorking:
            catalog.projection.settle()
