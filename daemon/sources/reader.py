"""The reader of a source's topic, as every projection has one: with dead letters, and a way to what the topic has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.consumer.reading import TopicReader
from daemon.consumer.settings import ConsumerSettings
from daemon.kafka.broker import broker_settings
from daemon.kafka.dead_letters import DeadLetters, dead_letter_topic
from daemon.kafka.topic import source_topic
from daemon.sources.outbox import OutboxSettings, outbox_of
from handlers.metastore.client import Metastore


if TYPE_CHECKING:
    from daemon.config.model import Config


def topic_reader(config: Config, source_name: str, *, projection: str, group: str) -> TopicReader:
    """Return the reader of ``projection``; raises ConfigError (a topic that cannot be used), KafkaUnavailable."""
    source = config.sources[source_name]
    assert config.kafka is not None, "checked with the configuration"
    broker, topic = broker_settings(config.kafka), source_topic(config, source)
    if source.relay.enabled:
        topic.ensure()  # at the very first start the relay, in its own thread, may not have come so far
    letters = DeadLetters(
        broker,
        dead_letter_topic(config.kafka.dead_letter_topic, message_bytes_max=topic.settings.message_bytes_max),
        origin=topic.name,
        reader=projection,
    )
    # The outbox of the relay's settings, so that what fills a gap has the same bytes as what the relay would have written.
    outbox = OutboxSettings(
        source=source_name,
        record_bytes_max=source.relay.record_bytes_max,
        batch_events=source.relay.batch_events,
    )
    filler = outbox_of(lambda: Metastore(source.metastore), outbox, topic)
    return TopicReader(broker, topic, ConsumerSettings(group=group, format=source.format), letters, filler)
