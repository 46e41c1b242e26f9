"""Connections to a source: a metastore client that measures its calls, and the reader of the source's topic.

The measured duration of a call includes reconnects and retries, because that is the time the caller waits. A
reader writes dead letters, and fills gaps of the topic from the notification log.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import Counter, Histogram

from daemon.consumer.settings import ConsumerSettings
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.broker import broker_settings
from daemon.kafka.dead_letters import DeadLetterWriter, dead_letter_topic
from daemon.kafka.signatures import source_signatures
from daemon.kafka.topic import source_topic
from daemon.process.metrics import CALL_BUCKETS_S, Metric, MetricTable
from daemon.sources.outbox import build_outbox
from daemon.sources.outgoing_events import OutboxSettings
from daemon.sources.unlogged_partitions import build_unlogged_partitions
from handlers.metastore.client import Metastore
from state.errors import LoginFailed, MetastoreUnavailable, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.config.model import Config
    from daemon.config.settings.clusters import SourceConfig
    from handlers.metastore.calls import AnyCall


R = TypeVar("R")


class CallMetrics(MetricTable):
    """Metrics of metastore calls, labeled by cluster; thread-safe, never raises."""

    call_s = Metric(
        Histogram,
        "tideline_metastore_call_seconds",
        "Duration of one metastore call, including reconnects and retries.",
        "cluster",
        "call",
        buckets=CALL_BUCKETS_S,
    )
    errors = Metric(
        Counter,
        "tideline_metastore_call_errors",
        "Metastore calls that failed, by error code.",
        "cluster",
        "call",
        "code",
    )


def measured_metastore(
    metrics: CallMetrics, cluster: str, beat: Callable[[], None] = lambda: None
) -> type[Metastore]:
    """Return a client class that measures its calls under ``cluster``, the name of a source or target. Clones
    of a client measure their calls, too.

    Calls ``beat`` after every answered call, so that many calls in one batch count as progress.
    """

    class MeasuredMetastore(Metastore):
        """Measures every call."""

        def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
            started = time.perf_counter()
            try:
                answer = super()._invoke(call, *arguments)
            except TidelineError as error:
                metrics.errors.labels(cluster, call.name, error.code).inc()
                if isinstance(error, MetastoreUnavailable | LoginFailed):  # an operator knows it by this name
                    error.context = {"cluster": cluster, **error.context}
                raise
            else:
                beat()
                return answer
            finally:
                metrics.call_s.labels(cluster, call.name).observe(time.perf_counter() - started)

    return MeasuredMetastore


def source_client(source: SourceConfig, client: type[Metastore] = Metastore) -> Metastore:
    """Return a client of the source's metastore for reading its notification log, with the relay's limits."""
    relay = source.relay
    return client(source.metastore, timeout_s=relay.call_timeout_s, reply_bytes_max=relay.reply_bytes_max)


def topic_reader(
    config: Config, source_name: str, *, projection: str, group: str, needs_event_ids: bool = False
) -> TopicReader:
    """Return the topic's reader for ``projection``.

    Raises ConfigError (the topic is unusable), KafkaUnavailable.
    """
    source = config.sources[source_name]
    assert config.kafka is not None, "checked with the configuration"
    broker, topic = broker_settings(config.kafka), source_topic(config, source)
    if source.relay.enabled:
        topic.ensure()  # at the first start the relay, in its own thread, may not have created it yet
    letters = DeadLetterWriter(
        broker,
        dead_letter_topic(config.kafka.dead_letter_topic, message_bytes_max=topic.settings.message_bytes_max),
        origin=topic.name,
        reader=projection,
    )
    # These are the relay's settings, so that records that fill a gap have the same bytes as the relay's.
    outbox = OutboxSettings(
        source=source_name, section=source.relay, spool_dir=config.state.dir, fills_gaps=True
    )
    unlogged = build_unlogged_partitions(config, source_name)
    filler = build_outbox(lambda: source_client(source), outbox, topic, unlogged=unlogged)
    settings = consumer_settings(config, source_name, group=group, needs_event_ids=needs_event_ids)
    return TopicReader(broker, topic, settings, letters, filler)


def consumer_settings(
    config: Config, source_name: str, *, group: str, needs_event_ids: bool
) -> ConsumerSettings:
    """Return the settings of a reader of the source's topic."""
    source = config.sources[source_name]
    return ConsumerSettings(
        group=group,
        format=source.record_format(),
        needs_event_ids=needs_event_ids,
        signatures=source_signatures(source_name, source),
    )
