"""The early warning of data loss as a capability: one loop for each source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Parts


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.capability import Runtime
    from daemon.status.model import StatusSection


class Retention(Capability):
    """Compares the events and files that each source still keeps with those that its readers still need."""

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the section ``retention``."""
        from daemon.retention.status import RETENTION

        return (RETENTION,)

    def build(self, runtime: Runtime) -> Parts:
        """Return a loop for each source that this daemon reads."""
        from daemon.retention.loop import build_loop
        from daemon.retention.status import RETENTION
        from daemon.status.reporter import SectionPart

        read = [
            name
            for name, source in runtime.config.sources.items()
            if source.relay.enabled or not runtime.relays_only
        ]
        loops = [build_loop(runtime, name) for name in read]
        return Parts(
            jobs=[job for job, _ in loops],
            sections=[
                SectionPart(
                    RETENTION,
                    lambda moment: tuple(
                        found for _, status in loops if (found := status(moment.now_s)) is not None
                    ),
                )
            ],
        )
