"""From a source's settings to its loop: the relay that publishes its log or, where another daemon does, a watch of its position."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from daemon.kafka.broker import broker_settings
from daemon.kafka.topic import source_topic
from daemon.process.heartbeat import LazyLoop
from daemon.process.state_file import open_state
from daemon.process.supervisor import Job
from daemon.relay.loop import Relay
from daemon.relay.settings import RelaySettings, RelayStatus
from daemon.sources.metastore import measured_metastore
from daemon.status.collector import SourcePart
from handlers.metastore.client import Metastore


if TYPE_CHECKING:
    from daemon.config.clusters import SourceConfig
    from daemon.config.model import Config
    from daemon.process.heartbeat import Heartbeat
    from daemon.sources.metastore import CallMetrics


WATCH_S: Final = 2.0
"""How often a source that another daemon relays is asked for its newest event."""


def source_part(config: Config, name: str, calls: CallMetrics) -> tuple[Job, SourcePart]:
    """Return the loop of source ``name`` and what it tells."""
    source = config.sources[name]
    if not source.relay.enabled:
        watch = _Watch(name, source)
        job = f"watch:{name}"
        return Job(job, watch.run), SourcePart(name, job, relays=False, status=lambda: watch.status)
    lazy = LazyLoop(lambda: _build_relay(config, name, source, calls))
    idle = RelayStatus(name, source.topic)
    job = f"relay:{name}"
    part = SourcePart(
        name, job, relays=True, status=lambda: lazy.built.status if lazy.built is not None else idle
    )
    return Job(job, lazy.run), part


def _build_relay(config: Config, name: str, source: SourceConfig, calls: CallMetrics) -> Relay:
    metastore = measured_metastore(calls, name)
    assert config.kafka is not None, "checked with the configuration"
    return Relay(
        broker_settings(config.kafka),
        source_topic(config, source),
        lambda: metastore(source.metastore),
        open_state(config.state.dir, "relay", name),
        relay_settings(name, source),
    )


def relay_settings(name: str, source: SourceConfig) -> RelaySettings:
    """Return the relay's own form of the source's settings."""
    relay = source.relay
    return RelaySettings(
        source=name,
        start=relay.start,
        record_bytes_max=relay.record_bytes_max,
        batch_events=relay.batch_events,
        poll_min_s=relay.poll_min_s,
        poll_max_s=relay.poll_max_s,
    )


class _Watch:
    """Asks a source that another daemon relays how far it is, so that lag is known here too."""

    def __init__(self, name: str, source: SourceConfig) -> None:
        self._uris = source.metastore
        self.status = RelayStatus(name, source.topic)

    def run(self, heartbeat: Heartbeat) -> None:
        """Ask every ``WATCH_S`` until told to stop."""
        with closing(Metastore(self._uris)) as metastore:
            while not heartbeat.stopping.is_set():
                self.status = replace(self.status, source_event_id=metastore.current_event_id())
                heartbeat.progress()
                heartbeat.stopping.wait(WATCH_S)
