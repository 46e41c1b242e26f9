"""The catalog as a capability: one loop for each source, which drives the branches of other capabilities."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Parts


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.routing import Route

    from daemon.capability import Runtime
    from daemon.catalog.branch import CatalogBranch, CatalogTools, OpenSource
    from daemon.catalog.loop import CatalogPart
    from daemon.config.document import Document, Problem
    from daemon.config.model import Config
    from daemon.config.section import ConfigSection


class Catalog(Capability):
    """Follows each source once for all ``branches``."""

    def __init__(self, branches: Sequence[CatalogBranch]) -> None:
        self.branches = branches

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the section ``catalog``."""
        from daemon.catalog.settings import CATALOG

        return (CATALOG,)

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield the problems between catalogs and clusters."""
        from daemon.catalog.settings import cross_problems

        return cross_problems(document)

    def build(self, runtime: Runtime) -> Parts:
        """Return a projection for each source with a catalog, and the routes of the branches."""
        from daemon.catalog.branch import CatalogTools
        from daemon.catalog.loop import build_catalog
        from daemon.catalog.metrics import CatalogMetrics
        from daemon.catalog.routes import catalog_action_routes
        from daemon.catalog.settings import CATALOG

        metrics = CatalogMetrics(runtime.registry, runtime.projections)
        openers = {branch.name: branch.opener(runtime.registry) for branch in self.branches}
        if runtime.relays_only:
            return Parts()
        tools = CatalogTools(
            runtime.config, runtime.calls, metrics, runtime.readers, openers, runtime.waits.moved
        )
        catalogs = [build_catalog(tools, source) for source in CATALOG.of(runtime.config)]
        return Parts(
            jobs=[catalog.job for catalog in catalogs],
            projections=[catalog.part for catalog in catalogs],
            routes=[
                *(route for branch in self.branches for route in _routes(branch, runtime, catalogs)),
                *catalog_action_routes(runtime.config, self.branches, runtime.audit),
            ],
            wait_kinds=[branch.wait_kind(_views(branch, runtime, catalogs)) for branch in self.branches],
        )

    def tools(self, config: Config) -> CatalogTools:
        """Return the tools with which a command opens catalogs. No endpoint exposes their metrics."""
        from prometheus_client import CollectorRegistry

        from daemon.catalog.branch import CatalogTools
        from daemon.catalog.metrics import CatalogMetrics
        from daemon.consumer.metrics import ProjectionMetrics
        from daemon.process.metrics import LoopMetrics
        from daemon.sources.connections import CallMetrics
        from daemon.sources.shared_readers import SharedReaders

        registry = CollectorRegistry(auto_describe=False)
        metrics = CatalogMetrics(registry, ProjectionMetrics(registry, LoopMetrics(registry)))
        openers = {branch.name: branch.opener(registry) for branch in self.branches}
        return CatalogTools(config, CallMetrics(registry), metrics, SharedReaders(config), openers)


def _routes(branch: CatalogBranch, runtime: Runtime, catalogs: Sequence[CatalogPart]) -> Sequence[Route]:
    from daemon.catalog.queries import query_routes

    views = _views(branch, runtime, catalogs)
    if not views:
        return ()
    answers = branch.answers(views, runtime.newest_event_id)
    tag = branch.name.capitalize()
    routes = query_routes(branch.queries(), answers, reads_store=branch.reads_store, tag=tag)
    return [*branch.pages(answers), *routes]


def _views(branch: CatalogBranch, runtime: Runtime, catalogs: Sequence[CatalogPart]) -> Sequence[OpenSource]:
    from daemon.catalog.branch import OpenSource

    return [
        OpenSource(catalog.source, partial(catalog.view, branch.name))
        for catalog in catalogs
        if branch.serves(runtime.config, catalog.source)
    ]
