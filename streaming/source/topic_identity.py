"""Whether the topic is still the topic that the checkpoint is about.

A topic that was deleted and created anew under its name has other records at the old offsets. Spark does not see that: with more
records than before it reads on from the old offsets and passes over all below, silently; with fewer it fails, and fails for ever,
because the offsets that it planned are in the checkpoint already (reference: spark-4.0.md §3). So the topic's id, which Kafka
gives every topic once, is kept beside the checkpoint and compared before a query starts and before every batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from state.errors import KafkaUnavailable, NotFound, StateCorrupt, TopicReplaced


if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.settings import KafkaSource
    from streaming.table.storage import Storage


TIMEOUT_MS: Final = 15_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the broker tells it: its id, and the offset behind the last record of each partition."""

    name: str
    topic_id: str
    ends: Mapping[int, int]


class TopicReader(Protocol):
    """Who asks the broker."""

    def describe(self, name: str) -> Topic:
        """Return the topic as it is; NotFound, KafkaUnavailable."""


class TopicGuard:
    """Compares the topic with what the checkpoint knows of it."""

    def __init__(self, topics: TopicReader, name: str, storage: Storage, record: str) -> None:
        self._topics = topics
        self._name = name
        self._storage = storage
        self._record = record

    def check(self, offsets: Mapping[int, int]) -> Topic:
        """Return the topic; raise TopicReplaced where it is another one than at first, or shorter than what was read of it.

        ``offsets`` is how far it was read, by partition. The first look notes the topic's id.
        """
        topic = self._topics.describe(self._name)
        known = self._storage.read(self._record)
        if known is None:
            self._storage.write(self._record, json.dumps({"topic": topic.name, "id": topic.topic_id}))
        elif (expected := _identity(known, self._record)) != (topic.name, topic.topic_id):
            raise TopicReplaced(
                "the topic is not the one that was read so far",
                topic=self._name,
                id=topic.topic_id,
                expected_topic=expected[0],
                expected_id=expected[1],
            )
        shrunk = {part: end for part, end in topic.ends.items() if end < offsets.get(part, 0)}
        if shrunk or any(part not in topic.ends for part in offsets):
            raise TopicReplaced(
                "the topic is shorter than what was read of it",
                topic=self._name,
                read=dict(offsets),
                ends=dict(topic.ends),
            )
        return topic


class SparkTopicReader:
    """Kafka's own admin client in Spark's JVM, with the settings of Spark's source."""

    def __init__(self, spark: Any, source: KafkaSource) -> None:
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
        properties = self._jvm.java.util.Properties()
        properties.put("bootstrap.servers", source.bootstrap)
        properties.put("default.api.timeout.ms", str(TIMEOUT_MS))
        properties.put("request.timeout.ms", str(TIMEOUT_MS // 2))
        for name, value in source.options.items():
            properties.put(name, value)
        self._admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)

    def describe(self, name: str) -> Topic:
        """Ask for id and ends: two requests."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            return self._look(name)
        except Py4JJavaError as error:
            reason = str(error.java_exception)[:500]
            if "UnknownTopicOrPartition" in reason:
                raise NotFound("the topic does not exist", topic=name) from error
            raise KafkaUnavailable(
                "the broker does not tell about the topic", topic=name, reason=reason
            ) from error
        except Py4JError as error:
            raise KafkaUnavailable(
                "Spark's JVM did not answer", topic=name, reason=str(error)[:500]
            ) from error

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def _look(self, name: str) -> Topic:
        names = self._jvm.java.util.ArrayList()
        names.add(name)
        described = self._admin.describeTopics(names).allTopicNames().get().get(name)
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        wanted, places = self._jvm.java.util.HashMap(), {}
        for each in described.partitions():
            places[int(each.partition())] = self._jvm.org.apache.kafka.common.TopicPartition(
                name, each.partition()
            )
        for place in places.values():
            wanted.put(place, latest)
        found = self._admin.listOffsets(wanted).all().get()
        ends = {part: int(found.get(place).offset()) for part, place in sorted(places.items())}
        return Topic(name, str(described.topicId().toString()), ends)


def _identity(text: str, path: str) -> tuple[str, str]:
    try:
        found = json.loads(text)
        return found["topic"], found["id"]
    except (ValueError, KeyError, TypeError) as broken:
        raise StateCorrupt("the record of the topic's identity cannot be read", path=path) from broken
