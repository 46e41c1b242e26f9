"""Detects a topic replaced since the checkpoint was written.

A topic deleted and created again under the same name has other records at the old offsets, and Spark does not
notice. If the new topic has more records than before, Spark continues at the old offsets and silently skips
all records below. If it has fewer, Spark fails permanently, because the planned offsets are already in the
checkpoint (reference: spark-4.0.md §3). Kafka gives every topic a unique id. The driver stores this id next
to the checkpoint, and compares it before a query starts and before every batch.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from state.errors import ConfigError, KafkaUnavailable, NotFound, StateCorrupt, TopicReplaced, Transient
from streaming.jvm_errors import find_cause, read_causes
from streaming.source.raw_events import reads_committed


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from streaming.settings import KafkaSource
    from streaming.storage.port import Storage


TIMEOUT_MS: Final = 15_000
METADATA_S: Final = 10.0
"""How long a broker may take to learn of partitions added to the topic."""


_POLL_S: Final = 0.1
CONFIG: Final = frozenset({"org.apache.kafka.common.config.ConfigException"})
_UNRESOLVED: Final = "No resolvable bootstrap urls"
"""The client's text when no name of a broker resolves; a transient failure."""


@dataclass(frozen=True, slots=True)
class Topic:
    """The broker's description of a topic: its id, and each partition's end offset, including open
    transactions.
    """

    name: str
    topic_id: str
    ends: Mapping[int, int]
    stable: Mapping[int, int] = field(default_factory=dict)
    """Start of the first open transaction of each partition, or its end; empty if the source reads records of
    open transactions too."""


class TopicReader(Protocol):
    """Reads the description of a topic from the broker."""

    def describe(self, name: str) -> Topic:
        """Return the topic. Raises NotFound or KafkaUnavailable."""


class TopicGuard:
    """Compares the topic with the topic that the checkpoint belongs to."""

    def __init__(
        self, topics: TopicReader, name: str, storage: Storage, record: str, *, metadata_s: float = METADATA_S
    ) -> None:
        self._topics = topics
        self._name = name
        self._storage = storage
        self._record = record
        self._metadata_s = metadata_s

    def check(self, offsets: Mapping[int, int]) -> Topic:
        """Return the topic. Raises TopicReplaced if its id changed, or if it ends before the offsets already
        read.

        ``offsets`` are the next offsets to read, by partition. The first call stores the topic's id. Raises
        Transient while records already read belong to an open transaction, which is possible only if the
        source used to read such records. Spark would then plan a batch that ends before it begins, and keep
        the plan in its checkpoint.
        """
        topic = self._describe(offsets)
        recorded = self._storage.read(self._record)
        if recorded is None:
            self._storage.write(self._record, json.dumps({"topic": topic.name, "id": topic.topic_id}))
        elif (expected := _parse_identity(recorded, self._record)) != (topic.name, topic.topic_id):
            raise TopicReplaced(
                "the topic was replaced by another topic of the same name",
                topic=self._name,
                id=topic.topic_id,
                expected_topic=expected[0],
                expected_id=expected[1],
            )
        shrunk = {part: end for part, end in topic.ends.items() if end < offsets.get(part, 0)}
        if shrunk or any(part not in topic.ends for part in offsets):
            raise TopicReplaced(
                "the topic ends before the offsets already read",
                topic=self._name,
                read=dict(offsets),
                ends=dict(topic.ends),
            )
        if any(end < offsets.get(part, 0) for part, end in topic.stable.items()):
            raise Transient(
                "records already read belong to a transaction that is still open",
                topic=self._name,
                read=dict(offsets),
                committed=dict(topic.stable),
                hint="The stream continues when the transaction ends.",
            )
        return topic

    def _describe(self, parts: Iterable[int]) -> Topic:
        """Return the topic. Repeats the query for a while if the broker does not know all ``parts`` that
        Spark has read.
        """
        deadline = time.monotonic() + self._metadata_s
        while True:
            topic = self._topics.describe(self._name)
            if all(part in topic.ends for part in parts) or time.monotonic() > deadline:
                return topic
            time.sleep(_POLL_S)


class SparkTopicReader:
    """Reads topics with Kafka's admin client in Spark's JVM, with the settings of Spark's source."""

    def __init__(self, spark: SparkSession, source: KafkaSource) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
        properties = self._jvm.java.util.Properties()
        properties.put("bootstrap.servers", source.bootstrap)
        properties.put("default.api.timeout.ms", str(TIMEOUT_MS))
        properties.put("request.timeout.ms", str(TIMEOUT_MS // 2))
        for name, value in source.options.items():
            properties.put(name, value)
        isolation = self._jvm.org.apache.kafka.common.IsolationLevel
        self._all, self._committed = isolation.READ_UNCOMMITTED, isolation.READ_COMMITTED
        self._reads_committed = reads_committed(source)
        with _errors(source.topic):
            self._admin = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)

    def describe(self, name: str) -> Topic:
        """Return id and end offsets, in two or three requests."""
        with _errors(name):
            return self._describe(name)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def _describe(self, name: str) -> Topic:
        names = self._jvm.java.util.ArrayList()
        names.add(name)
        described = self._admin.describeTopics(names).allTopicNames().get().get(name)
        partitions = {
            int(each.partition()): self._jvm.org.apache.kafka.common.TopicPartition(name, each.partition())
            for each in described.partitions()
        }
        stable = self._list_ends(partitions, self._committed) if self._reads_committed else {}
        ends = self._list_ends(partitions, self._all)
        return Topic(name, str(described.topicId().toString()), ends, stable)

    def _list_ends(self, partitions: Mapping[int, Any], isolation: Any) -> dict[int, int]:
        admin, specs = self._jvm.org.apache.kafka.clients.admin, self._jvm.java.util.HashMap()
        for each in partitions.values():
            specs.put(each, admin.OffsetSpec.latest())
        offsets = self._admin.listOffsets(specs, admin.ListOffsetsOptions(isolation)).all().get()
        return {part: int(offsets.get(each).offset()) for part, each in sorted(partitions.items())}


@contextmanager
def _errors(topic: str) -> Iterator[None]:
    """Raise Tideline's errors for exceptions of Kafka's client."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        causes = read_causes(error)
        reason = " | ".join(map(str, causes))[:500]
        if "UnknownTopicOrPartition" in reason:
            raise NotFound("the topic does not exist", topic=topic) from error
        if find_cause(causes, CONFIG) and _UNRESOLVED not in reason:
            raise ConfigError(
                "Kafka's client refuses its settings",
                topic=topic,
                reason=reason,
                hint="Correct section 'kafka', or bootstrap, options and secrets in flat.NAME.source.",
            ) from error
        raise KafkaUnavailable("the broker cannot describe the topic", topic=topic, reason=reason) from error
    except Py4JError as error:
        raise KafkaUnavailable("Spark's JVM does not answer", topic=topic, reason=str(error)[:500]) from error


def _parse_identity(text: str, path: str) -> tuple[str, str]:
    try:
        form = json.loads(text)
        return form["topic"], form["id"]
    except (ValueError, KeyError, TypeError) as broken:
        raise StateCorrupt("the record of the topic's identity is corrupt", path=path) from broken
