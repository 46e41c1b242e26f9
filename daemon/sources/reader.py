"""The reader of a source's topic, as every projection has one: with dead letters, and a way to what the topic has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.consumer import ConsumerSettings, TopicReader
from daemon.kafka.dead_letters import DeadLetters, dead_letter_topic
from daemon.relay import outbox_of
from daemon.relay.assembly import broker_settings, relay_settings, source_topic
from handlers.metastore.client import Metastore


if TYPE_CHECKING:
    from daemon.config import Config


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
    filler = outbox_of(lambda: Metastore(source.metastore), relay_settings(source_name, source), topic)
    return TopicReader(broker, topic, ConsumerSettings(group=group, format=source.format), letters, filler)
