"""The metastore endpoint as a capability: ``tideline serve``, alone or, for the sources in section ``serve``,
run by the daemon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Command, Parts


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.capability import Runtime
    from daemon.config.document import Document, Problem
    from daemon.config.section import ConfigSection
    from daemon.status.model import StatusSection


class Endpoint(Capability):
    """Serves the metastore's Thrift protocol to clients of any Hive version."""

    heading = "Metastore endpoint"
    commands = (
        Command(
            "serve",
            "daemon.endpoint.commands",
            "Serve metastore clients of any version, and answer partition calls from the index.",
        ),
    )

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the section ``serve``."""
        from daemon.endpoint.configured.settings import SERVE

        return (SERVE,)

    def cross_problems(self, document: Document) -> Iterable[Problem]:
        """Yield the problems between endpoints and sources."""
        from daemon.endpoint.configured.settings import cross_problems

        return cross_problems(document)

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the section ``endpoints``."""
        from daemon.endpoint.configured.status import ENDPOINTS

        return (ENDPOINTS,)

    def build(self, runtime: Runtime) -> Parts:
        """Return a loop for each endpoint that the daemon runs."""
        from daemon.endpoint.configured.loop import EndpointCollector, build_endpoint
        from daemon.endpoint.configured.settings import SERVE
        from daemon.endpoint.configured.status import ENDPOINTS
        from daemon.endpoint.pages import endpoint_page
        from daemon.status.reporter import SectionPart

        if runtime.relays_only:
            return Parts()
        run = [source for source, serve in SERVE.of(runtime.config).items() if serve.run]
        parts = [build_endpoint(runtime, source) for source in run]
        runtime.registry.register(EndpointCollector([part.loop for part in parts]))
        status = SectionPart(
            ENDPOINTS,
            lambda moment: tuple(part.loop.status(moment.loops[part.job.name]) for part in parts),
        )
        routes = [endpoint_page(runtime.status)] if parts else []
        return Parts(jobs=[part.job for part in parts], sections=[status], routes=routes)
