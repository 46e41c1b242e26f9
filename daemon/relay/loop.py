"""The loop of one source: the relay that publishes its log, or a watch if another daemon relays it.

A relay runs in four steps. Every error ends the run, and the next run repeats all steps:

1. ensure that the topic exists and can be used;
2. find the position of the last record in the topic (``start_position``);
3. open a producer that continues there (``publisher``);
4. follow the log until a stop request (``tail``).
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from typing import Final

from daemon.config.model import Config
from daemon.config.settings.clusters import SourceConfig
from daemon.kafka.broker import BrokerSettings, broker_settings
from daemon.kafka.offset_search import OffsetReader
from daemon.kafka.signatures import source_signatures
from daemon.kafka.topic import Topic, source_topic
from daemon.process.inbox import Inbox, requests_directory
from daemon.process.loops.heartbeat import Heartbeat, LazyLoop, Pulse
from daemon.process.loops.loop import Job
from daemon.relay.gap import CrossedRelayGap, cross_gap, find_gap, serve
from daemon.relay.publisher import Publisher, RelaySettings
from daemon.relay.start_position import Start, StoredPosition, resume
from daemon.relay.tail import Tail
from daemon.sources.connections import CallMetrics, measured_metastore, source_client
from daemon.sources.log_connections import Connect
from daemon.sources.outbox import build_outbox
from daemon.sources.unlogged_partitions import UnloggedPartitions, build_unlogged_partitions
from daemon.state_directory.directory import open_state
from daemon.status.model import SourceStatus
from daemon.status.reporter import SourcePart
from handlers.failpoints import failpoint
from handlers.metastore.client import Metastore
from state.errors import InvalidRequest, KafkaUnavailable, NotFound
from state.event_log.positions import Position
from state.store import Store


WATCH_S: Final = 2.0
"""Interval of queries for the newest event of a source that another daemon relays."""


class RelayLoop:
    """One source's relay. Any thread may read ``status``."""

    def __init__(  # noqa: PLR0913, PLR0917 - it connects six parts and owns none of them
        self,
        broker: BrokerSettings,
        topic: Topic,
        connect: Connect,
        store: Store,
        settings: RelaySettings,
        unlogged: UnloggedPartitions | None = None,
        inbox: Inbox | None = None,
        nudge: threading.Event | None = None,
    ) -> None:
        """Another thread sets ``nudge`` to make the relay read the log at once."""
        self._nudge = nudge or threading.Event()
        self._broker = broker
        self._topic = topic
        self._settings = settings
        self._stored = StoredPosition(store, topic.name)
        self._pulse = Pulse()
        self._outbox = build_outbox(connect, settings, topic, beat=self._pulse.beat, unlogged=unlogged)
        self.status = SourceStatus(settings.source)
        self._inbox = inbox

    def run(self, heartbeat: Heartbeat) -> None:
        """Relay until ``heartbeat`` requests a stop.

        Raises ConfigError (the topic is unusable), GapDetected, Inconsistent (another metastore),
        LimitExceeded, and Transient. After any of them, ``run`` may be called again, and continues at the end
        of the topic.
        """
        self._pulse.connect(heartbeat)
        with closing(self._outbox):
            self._run(heartbeat)

    def close(self) -> None:
        """Release the state."""
        self._stored.close()

    def _run(self, heartbeat: Heartbeat) -> None:
        if self._inbox is not None:
            self._inbox.open()
        # 1.
        self._topic.ensure()
        failpoint("relay.topic-ensured")
        # 2.
        self._outbox.observed_from = self._stored.load_look_back()
        if (unlogged := self._outbox.unlogged) is not None:
            unlogged.found_by_scan |= self._stored.load_scanned()
        start = self._find_start()
        failpoint("relay.resumed")
        # 3.
        with closing(self._open_publisher(start.position)) as publisher:
            # 4.
            heartbeat.following()
            tail = Tail(
                self._outbox,
                publisher,
                self._stored,
                self._settings,
                start,
                self._set_status,
                self.status,
                self._nudge,
                serve=self._serve_following,
            )
            tail.follow(heartbeat)

    def cross_gap(self) -> CrossedRelayGap:
        """Continue after lost events (``daemon.relay.gap``); must not be called while relaying.

        Raises InvalidRequest if there is no gap, and the errors of ``run``.
        """
        self._topic.ensure()
        source = self._settings.source
        with closing(self._outbox):
            with self._open_records() as records:
                gap = find_gap(records, self._outbox, self._stored, source)
            return cross_gap(gap, self._outbox, self._stored, self._open_publisher, source)

    def serve_failed(self) -> bool:
        """Serve requests after an error; return whether there were any, so that the loop runs again."""
        return (
            self._inbox is not None and self._inbox.serve(lambda request: serve(request, self.cross_gap)) > 0
        )

    def _serve_following(self) -> None:
        if self._inbox is not None:
            self._inbox.serve(lambda request: serve(request, self._refuse_to_cross))

    def _refuse_to_cross(self) -> CrossedRelayGap:
        raise InvalidRequest(
            "the relay has no gap: it is following",
            source=self._settings.source,
            hint="For a policy that has one, run 'tideline gap policy POLICY'.",
        )

    def _open_publisher(self, after: Position) -> Publisher:
        return Publisher(self._broker, self._topic.settings, self._settings, after=after)

    def _open_records(self) -> OffsetReader:
        return OffsetReader(self._broker, self._topic.name, self._settings.signatures)

    def _find_start(self) -> Start:
        try:
            with self._open_records() as records:
                return resume(records, self._outbox, self._stored, self._settings.section.start)
        except NotFound as error:  # created just now and unknown to this broker, or deleted since
            raise KafkaUnavailable(error.message, hint=error.hint, **error.context) from error

    def _set_status(self, status: SourceStatus) -> None:
        self.status = status


def source_part(
    config: Config, name: str, calls: CallMetrics, nudge: threading.Event
) -> tuple[Job, SourcePart]:
    """Return the loop of source ``name``, and its part of the status. Setting ``nudge`` makes the relay read
    at once.
    """
    source = config.sources[name]
    if not source.relay.enabled:
        watch = _SourceWatch(name, source)
        job = f"watch:{name}"
        return Job(job, watch.run), SourcePart(name, job, relays=False, status=lambda: watch.status)
    lazy = LazyLoop(lambda: build_relay(config, name, source, calls, nudge))
    idle = SourceStatus(name)
    job = f"relay:{name}"
    part = SourcePart(name, job, relays=True, status=lambda: lazy.read(lambda built: built.status, idle))
    return Job(
        job, lazy.run, revive=lambda: lazy.read(lambda built: built.serve_failed(), otherwise=False)
    ), part


def build_relay(
    config: Config,
    name: str,
    source: SourceConfig,
    calls: CallMetrics,
    nudge: threading.Event | None = None,
) -> RelayLoop:
    """Open the relay's state and return its loop; raise StateCorrupt, StateLocked, ConfigError."""
    metastore = measured_metastore(calls, name)
    assert config.kafka is not None, "checked with the configuration"
    return RelayLoop(
        broker_settings(config.kafka),
        source_topic(config, source),
        lambda: source_client(source, metastore),
        open_state(config.state.dir, "relay", name),
        RelaySettings(
            source=name,
            section=source.relay,
            spool_dir=config.state.dir,
            signatures=source_signatures(name, source),
        ),
        build_unlogged_partitions(config, name),
        Inbox(requests_directory(config.state.dir, "relay", name)),
        nudge,
    )


class _SourceWatch:
    """Polls the newest event id of a source that another daemon relays, so that the status has the lag."""

    def __init__(self, name: str, source: SourceConfig) -> None:
        self._uris = source.metastore
        self.status = SourceStatus(name)

    def run(self, heartbeat: Heartbeat) -> None:
        """Poll every ``WATCH_S`` until a stop request."""
        with closing(Metastore(self._uris)) as metastore:
            while not heartbeat.stopping.is_set():
                newest = metastore.current_event_id()
                self.status = replace(self.status, current_event_id=newest, read_s=time.time())
                heartbeat.progress()
                heartbeat.stopping.wait(WATCH_S)
