"""Timelines and partitions for the command line: of the running daemon where there is one, else of the state files that it left.

A state file belongs to one process at a time, so a live daemon is asked: over HTTP for answers, by a request file for changes
(``daemon.process.inbox``). Without a daemon the files are opened here, under the lock of the state directory.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from daemon.catalog.opening import open_catalog, projection_name, requests_directory
from daemon.catalog.rules import facts_of
from daemon.partitions.answers import PartitionAnswers, PartitionView
from daemon.partitions.client import RemotePartitions
from daemon.process.inbox import ask
from daemon.process.lock import state_lock
from daemon.service.metrics import CatalogMeasures, Metrics
from daemon.status.client import fetch, running_daemon
from daemon.timelines.answers import TABLES_MAX, TimelineAnswers, TimelineView
from daemon.timelines.client import RemoteTimelines
from state.errors import ConfigError, NotFound, TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.catalog.opening import OpenCatalog
    from daemon.config import Config
    from daemon.partitions.answers import FilterQuestion
    from daemon.timelines.answers import Answer, CoverQuestion


ASK_S: Final = 300.0
"""How long a change may take on a live daemon: a rebuild lists all partitions of a table."""


class Timelines(Protocol):
    """What can be asked of either."""

    def listing(self, *, source: str | None = None, prefix: str = "", limit: int = TABLES_MAX) -> Answer:
        """Return the tables."""

    def show(self, table: str, *, source: str | None = None) -> Answer:
        """Return a table's timelines."""

    def latest(self, name: str, *, source: str | None = None, column: str | None = None) -> Answer:
        """Return the latest partitions."""

    def cover(self, asked: CoverQuestion) -> Answer:
        """Return what covers a range."""


class Partitions(Protocol):
    """What can be asked of either."""

    def listing(self, *, source: str | None = None, prefix: str = "", limit: int = TABLES_MAX) -> Answer:
        """Return the tables of the index."""

    def filter(self, asked: FilterQuestion) -> Answer:
        """Return the partitions that match."""

    def count(self, asked: FilterQuestion) -> Answer:
        """Return how many partitions match."""

    def explain(self, asked: FilterQuestion) -> Answer:
        """Return how a filter is answered."""

    def names_ps(
        self, table: str, values: Sequence[str], most: int | None = None, *, source: str | None = None
    ) -> Answer:
        """Return the names of partitions with these values."""


class Access:
    """Answers, and a way to have something done to a table of a source."""

    def __init__(
        self,
        config: Config,
        answers: Timelines,
        partitions: Partitions,
        do: Callable[[str, dict[str, Any]], dict[str, Any]],
        *,
        live: bool,
    ) -> None:
        self.answers = answers
        self.partitions = partitions
        self.live = live
        self._config = config
        self._do = do

    def do(self, source: str | None, request: dict[str, Any]) -> dict[str, Any]:
        """Have one request done; raises ConfigError where several sources could be meant."""
        return self._do(source or self._only_source(), request)

    def _only_source(self) -> str:
        names = list(self._config.catalog)
        if len(names) != 1:
            hint = f"Give --source: {', '.join(names)}." if names else "Add a catalog to the configuration."
            raise ConfigError("which source is not clear", hint=hint, key="catalog")
        return names[0]


@contextmanager
def catalog_access(config: Config, url: str | None = None) -> Iterator[Access]:
    """Give access to the timelines and partitions of ``config``'s daemon, or to those at ``url``.

    Raises ConfigError where no catalog is configured, StateLocked where a daemon holds the state but does not answer.
    """
    if url is None and not config.catalog:
        raise ConfigError("no catalog is configured", hint="Add a source to 'catalog'.", key="catalog")
    address = url or _answering(config)
    if address is not None:
        remote = (RemoteTimelines(address), RemotePartitions(address))
        yield Access(config, *remote, lambda s, r: _asked(config, s, r), live=True)
        return
    with state_lock(config.state.dir), ExitStack() as stack:
        opened = {source: _opened(config, source, stack) for source in config.catalog}
        views = [_view(config, source, catalog) for source, catalog in opened.items()]
        newest = cache(lambda source: _newest(opened[source]))
        local = (TimelineAnswers(views, newest), PartitionAnswers(_indexes(opened, config), newest))
        yield Access(config, *local, lambda s, r: _done(opened, s, r), live=False)


def _answering(config: Config) -> str | None:
    """Return the address of a daemon that answers, or None."""
    address = running_daemon(config.state.dir)
    if address is None:
        return None
    try:
        fetch(address, "/livez")
    except Transient:
        return None
    return address


def _opened(config: Config, source: str, stack: ExitStack) -> OpenCatalog:
    metrics = Metrics(process=False)
    catalog = open_catalog(config, source, CatalogMeasures(metrics, projection_name(source)), metrics)
    stack.enter_context(closing(catalog))
    return catalog


def _view(config: Config, source: str, catalog: OpenCatalog) -> TimelineView:
    known = catalog.known() if catalog.projection.read_state() else None
    return TimelineView(source, facts_of(config, source), lambda: known)


def _indexes(opened: dict[str, OpenCatalog], config: Config) -> list[PartitionView]:
    """Return the indexes that are configured, of the state that ``_view`` has read."""
    return [
        PartitionView(source, catalog.partitions.known)
        for source, catalog in opened.items()
        if config.catalog[source].partitions is not None
    ]


def _newest(catalog: OpenCatalog) -> int | None:
    try:
        return catalog.source.current_event_id()
    except TidelineError:
        return None  # the answer says that it is not known


def _asked(config: Config, source: str, request: dict[str, Any]) -> dict[str, Any]:
    directory = requests_directory(config, source)
    if not directory.is_dir():
        raise NotFound(
            "no catalog of this source runs here",
            source=source,
            hint="Changes are asked for on the daemon's own machine.",
        )
    return ask(directory, request, ASK_S)


def _done(opened: dict[str, OpenCatalog], source: str, request: dict[str, Any]) -> dict[str, Any]:
    catalog = opened.get(source)
    if catalog is None or not catalog.projection.read_state():
        raise NotFound("the source was never followed", source=source, hint="Start the daemon once.")
    return catalog.do(request)
