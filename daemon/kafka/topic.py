"""The topic of one source: creates it, and verifies it at every start.

A notification log has one order, and Kafka preserves order only within a partition. The topic therefore has
exactly one partition; with a second one, a reader could see a commit before its writes. ``cleanup.policy`` is
``delete``, because compaction would drop events that share a key, which all events do.

A topic that was deleted and created again has the same name but other contents. The broker's topic id
distinguishes the two (Kafka 2.8 and later); with older brokers, the time of the earliest record does.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported implicitly
    AclOperation,
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from daemon.config.settings.clusters import TOPIC_RETENTION_S
from daemon.kafka.broker import LIBRARY_LOG, BrokerSettings, broker_settings, translate_errors
from state.errors import ConfigError, KafkaUnavailable, NotFound, Refused
from state.event_log.retention import NEVER, TopicLimits


if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from concurrent.futures import Future

    from daemon.config.model import Config
    from daemon.config.settings.clusters import SourceConfig


PARTITION: Final = 0
MESSAGE_BYTES_MIN: Final = 8 * 1024 * 1024
"""Minimum of max.message.bytes: an indivisible event may be larger than relay.record_bytes_max."""
CODEC: Final = "zstd"
"""``compression.type`` of a topic, and codec of the relay, so that the broker need not compress again. It is
the only codec for which the library limits the content of a batch (``unreadable_batches``)."""
_VISIBLE_POLL_S: Final = 0.02
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # untyped in the library
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # likewise


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Settings that a new topic gets, and that an existing topic must already have."""

    name: str
    retention_s: int = TOPIC_RETENTION_S
    """How long a projection may be away and still find its events in the topic. The retention of the
    notification log adds to it, because the reader finds events there that the topic lost.
    """
    message_bytes_max: int = 8 * 1024 * 1024
    """``max.message.bytes``: larger than the relay's largest record, so that every event fits."""
    replication: int = -1
    """Replication factor; -1 uses the default of the broker."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The range of offsets: ``low`` is the earliest offset, ``high`` that of the next record."""

    low: int
    high: int

    @property
    def empty(self) -> bool:
        """Whether there is no offset to read.

        If False, the topic may still have no record, because markers use offsets too.
        """
        return self.low >= self.high


_ADMINS: Final[WeakValueDictionary[Hashable, AdminClient]] = WeakValueDictionary()
_ADMINS_LOCK: Final = threading.Lock()


def _share_admin(broker: BrokerSettings) -> AdminClient:
    """Return the thread-safe client that all topics of the same settings share.

    Each projection has a topic object. A client costs several threads and connections, although it is hardly
    used after the start.
    """
    key = (broker.bootstrap, broker.client_id, tuple(sorted(broker.client.items())))
    with _ADMINS_LOCK:
        admin = _ADMINS.get(key)
        if admin is None:
            admin = _ADMINS[key] = AdminClient(broker.librdkafka(), logger=LIBRARY_LOG)
        return admin


class Topic:
    """Administers one topic. Connects on first use. Thread-safe."""

    def __init__(self, broker: BrokerSettings, settings: TopicSettings) -> None:
        self._broker = broker
        self.settings = settings
        self.name = settings.name
        # Keeps the client alive: librdkafka fails the pending answers of an AdminClient that was
        # garbage-collected.
        self._admin = _share_admin(broker)

    def ensure(self) -> bool:
        """Create the topic unless it exists, and verify it; return whether it was created.

        The topic may have been created a moment ago, here or by another process, or may still be in deletion:
        brokers learn of it one after another. Raises ConfigError for an unusable topic, KafkaUnavailable if
        the brokers still contradict each other after the timeout.
        """
        created = not self._exists() and self._create()
        self._await_visible()
        if not created:
            self._retry_unknown(self.verify)
        return created

    def verify_order(self) -> None:
        """Raise ConfigError unless the topic has one partition, as readers require.

        Raises NotFound, KafkaUnavailable.
        """
        description = self._describe()
        if len(description.partitions) != 1:
            raise ConfigError(
                "the topic has more than one partition, so it cannot preserve the order of events",
                hint="Name another topic, or delete this one and let the relay create it.",
                topic=self.name,
                partitions=len(description.partitions),
            )

    def verify(self) -> None:
        """Raise ConfigError unless the topic has one partition, accepts the relay's records and keeps all of
        them.

        Raises NotFound.
        """
        self.verify_order()
        config = self._config()
        bytes_max = int(config["max.message.bytes"])
        if bytes_max < self.settings.message_bytes_max:
            raise ConfigError(
                "the topic accepts only smaller records than the relay writes",
                hint="Raise max.message.bytes of the topic, or lower the setting.",
                topic=self.name,
                max_message_bytes=bytes_max,
                needed_bytes=self.settings.message_bytes_max,
            )
        if "compact" in config["cleanup.policy"]:
            raise ConfigError(
                "the topic is compacted, which drops events",
                hint="Set cleanup.policy of the topic to delete.",
                topic=self.name,
                cleanup_policy=config["cleanup.policy"],
            )

    def limits_content(self) -> bool:
        """Whether the topic's compression limits the content of every batch.

        Raises NotFound, KafkaUnavailable.
        """
        return self._config()["compression.type"] == CODEC

    def may_write(self) -> bool:
        """Whether this user may write records; True if the broker does not report this. Raises NotFound."""
        operations = self._describe(include_authorized_operations=True).authorized_operations
        return operations is None or AclOperation.WRITE in operations

    def identity(self) -> str:
        """Return an id that distinguishes the topic from a later one of the same name.

        Raises NotFound, KafkaUnavailable.
        """
        topic_id = getattr(self._describe(), "topic_id", None)
        if topic_id is not None and str(topic_id).strip("A"):  # the zero id of old brokers is all A in base64
            return str(topic_id)
        return f"earliest-{self._offset(OffsetSpec.for_timestamp(0)).timestamp}"

    def watermarks(self) -> Watermarks:
        """Return the range of offsets from the leader of the partition; raise NotFound, KafkaUnavailable."""
        return Watermarks(self._offset(_EARLIEST).offset, self._offset(_LATEST).offset)

    def limits(self) -> TopicLimits:
        """Return the topic's retention limits and current content; raise NotFound, KafkaUnavailable."""
        config = self._config()
        retention_ms, retention_bytes = int(config["retention.ms"]), int(config["retention.bytes"])
        first = self._offset(OffsetSpec.for_timestamp(0))
        return TopicLimits(
            NEVER if retention_ms < 0 else retention_ms / 1000,
            limits_bytes=retention_bytes >= 0,
            oldest_time_s=first.timestamp / 1000 if first.timestamp >= 0 else None,
            has_deleted=self._offset(_EARLIEST).offset > 0,
        )

    def _exists(self) -> bool:
        """Return whether the broker that answers knows the topic.

        This needs no right to create topics.
        """
        try:
            self._describe()
        except NotFound:
            return False
        return True

    def _create(self) -> bool:
        config = {
            "retention.ms": str(self.settings.retention_s * 1000),
            "cleanup.policy": "delete",
            "compression.type": CODEC,
            "max.message.bytes": str(self.settings.message_bytes_max),
        }
        new = NewTopic(self.name, 1, replication_factor=self.settings.replication, config=config)
        try:
            self._answer(
                self._admin.create_topics([new], request_timeout=self._broker.timeout_s), "create the topic"
            )
        except Refused:
            return False  # another process has created it meanwhile
        return True

    def _await_visible(self) -> None:
        """Wait until the brokers know the topic and its partition has a leader."""
        self._retry_unknown(self._describe)
        self._retry_unknown(lambda: self._offset(_LATEST))

    def _retry_unknown(self, request: Callable[[], object]) -> None:
        """Repeat ``request`` until the broker that answers knows the topic.

        Raises KafkaUnavailable after the timeout.
        """
        deadline = time.monotonic() + self._broker.timeout_s
        while True:
            try:
                request()
            except (NotFound, KafkaUnavailable) as error:
                if time.monotonic() < deadline:
                    time.sleep(_VISIBLE_POLL_S)
                elif isinstance(error, KafkaUnavailable):
                    raise
                else:
                    raise KafkaUnavailable(
                        "the topic exists, but not every broker knows it", topic=self.name
                    ) from error
            else:
                return

    def _describe(self, **options: bool) -> Any:
        names = TopicCollection([self.name])
        futures = self._admin.describe_topics(names, request_timeout=self._broker.timeout_s, **options)
        return self._answer(futures, "describe the topic")

    def _config(self) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        futures = self._admin.describe_configs([resource], request_timeout=self._broker.timeout_s)
        entries = self._answer(futures, "read the topic's configuration")
        return {name: str(entry.value) for name, entry in entries.items()}

    def _offset(self, spec: OffsetSpec) -> Any:
        futures = self._admin.list_offsets(
            {TopicPartition(self.name, PARTITION): spec},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._broker.timeout_s,
        )
        return self._answer(futures, "read the topic's offsets")

    def _answer(self, futures: dict[Any, Future[Any]], doing: str) -> Any:
        """Wait for the only answer of ``futures``."""
        with translate_errors(doing, topic=self.name):
            (answer,) = futures.values()
            return answer.result(timeout=self._broker.timeout_s + 5)


def source_topic(config: Config, source: SourceConfig) -> Topic:
    """Return the topic of a source; raise ConfigError for settings that librdkafka rejects."""
    assert config.kafka is not None, "checked with the configuration"
    settings = TopicSettings(
        source.topic,
        retention_s=source.relay.topic_retention_s,
        message_bytes_max=max(MESSAGE_BYTES_MIN, 2 * source.relay.record_bytes_max),
    )
    with translate_errors("use the settings of 'kafka'"):
        return Topic(broker_settings(config.kafka), settings)
