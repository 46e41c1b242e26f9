"""The relay as a capability: one loop for each source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.capability import Capability, Parts


if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.capability import Runtime
    from daemon.config.document import Problem
    from daemon.config.model import Config


class Relay(Capability):
    """Publishes the notification logs of sources to their topics."""

    def build(self, runtime: Runtime) -> Parts:
        """Return a relay for each source, or a watch if another daemon relays it."""
        from daemon.relay.loop import source_part
        from daemon.relay.routes import gap_route

        parts = [
            source_part(runtime.config, name, runtime.calls, runtime.nudges.of(name))
            for name, source in runtime.config.sources.items()
            if source.relay.enabled or not runtime.relays_only
        ]
        return Parts(
            jobs=[job for job, _ in parts],
            sources=[part for _, part in parts],
            routes=[gap_route(runtime.config, runtime.audit)],
        )

    def live_problems(self, config: Config) -> Iterable[Problem]:
        """Check the metastores of sources and targets, and the topics."""
        from daemon.sources.checks.live_checks import live_problems

        return live_problems(config)
