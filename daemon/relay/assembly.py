"""From a source's settings to the loop that publishes its log, or, where another daemon does that, to one that looks how far it is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from daemon.kafka.broker import BrokerSettings, translated
from daemon.kafka.topic import Topic, TopicSettings
from daemon.process.lazy_loop import Late
from daemon.process.supervisor import Job
from daemon.relay import Relay, RelaySettings, RelayStatus
from daemon.sources.metastore import measured_metastore
from daemon.status.collector import SourcePart
from handlers.metastore.client import Metastore
from state.store.sqlite import SqliteStore


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config import Config, KafkaConfig, SourceConfig
    from daemon.process.heartbeat import Lifeline
    from daemon.service.metrics import Metrics


STORE_VERSION: Final = 1
MESSAGE_BYTES_MIN: Final = 8 * 1024 * 1024
"""Least max.message.bytes of a topic: an event that cannot be cut may be larger than relay.record_bytes_max."""
WATCH_S: Final = 2.0
"""How often a source that is relayed elsewhere is asked for its newest event."""


def broker_settings(kafka: KafkaConfig) -> BrokerSettings:
    """Return how to reach the broker, secrets included."""
    given = {key: _librdkafka(value) for key, value in kafka.options.items()}
    secrets = {key: secret.get_secret_value() for key, secret in kafka.secrets.items()}
    return BrokerSettings(kafka.bootstrap, client=given | secrets)


def _librdkafka(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def source_topic(config: Config, source: SourceConfig) -> Topic:
    """Return the source's topic; raise ConfigError for settings that librdkafka does not take."""
    assert config.kafka is not None, "checked with the configuration"
    settings = TopicSettings(
        source.topic,
        retention_s=source.relay.topic_retention_s,
        message_bytes_max=max(MESSAGE_BYTES_MIN, 2 * source.relay.record_bytes_max),
    )
    with translated("use the settings of 'kafka'"):
        return Topic(broker_settings(config.kafka), settings)


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


def source_part(config: Config, name: str, metrics: Metrics) -> tuple[Job, SourcePart]:
    """Return the loop of source ``name`` and what it tells."""
    source = config.sources[name]
    if not source.relay.enabled:
        watch = _Watch(name, source)
        job = f"watch:{name}"
        return Job(job, watch.run), SourcePart(name, job, relays=False, status=lambda: watch.status)
    late = Late(lambda: _build_relay(config, name, source, metrics))
    idle = RelayStatus(name, source.topic)
    job = f"relay:{name}"
    part = SourcePart(
        name, job, relays=True, status=lambda: late.built.status if late.built is not None else idle
    )
    return Job(job, late.run), part


def _build_relay(config: Config, name: str, source: SourceConfig, metrics: Metrics) -> Relay:
    metastore = measured_metastore(metrics, name)
    assert config.kafka is not None, "checked with the configuration"
    return Relay(
        broker_settings(config.kafka),
        source_topic(config, source),
        lambda: metastore(source.metastore),
        SqliteStore(state_file(config.state.dir, "relay", name), schema_version=STORE_VERSION),
        relay_settings(name, source),
    )


def state_file(directory: Path, kind: str, name: str) -> Path:
    """Return the file of one part's state; names are checked with the configuration and need no escaping."""
    return directory / f"{kind}-{name}.db"


class _Watch:
    """Asks a source that another daemon relays how far it is, so that lag is known here too."""

    def __init__(self, name: str, source: SourceConfig) -> None:
        self._uris = source.metastore
        self.status = RelayStatus(name, source.topic)

    def run(self, lifeline: Lifeline) -> None:
        """Ask every ``WATCH_S`` until told to stop."""
        with closing(Metastore(self._uris)) as metastore:
            while not lifeline.stopping.is_set():
                self.status = replace(self.status, source_event_id=metastore.current_event_id())
                lifeline.progress()
                lifeline.stopping.wait(WATCH_S)
