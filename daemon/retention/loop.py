"""The loop that measures one source, twice a minute.

It has its own connections, so that a slow answer delays neither relay nor projections. While the metastore or
the broker is unreachable, the last measurement remains, and the time left computed from it keeps shrinking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Final

from daemon.capability import Runtime
from daemon.kafka.topic import Topic, source_topic
from daemon.process.loops.heartbeat import Heartbeat
from daemon.process.loops.loop import Job
from daemon.retention.measurement import Measurement, Reader, measure
from daemon.retention.status import SourceRetention, describe
from daemon.sources.connections import measured_metastore, source_client
from daemon.status.model import ENDED, DaemonStatus
from state.errors import NotFound
from state.event_log.retention import NEVER, TopicLimits


MEASURE_S: Final = 30.0
"""How often to measure a source. It costs five calls of the metastore and three of the broker, one for each
reader that is behind, and two if the relay lists directories.
"""
FIRST_S: Final = 1.0
_FIRST: Final = 5
"""The first measurements follow one another sooner, because readers have no positions at the start."""


class RetentionLoop:
    """Measures one source. Any thread may read ``status``."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime, self._name = runtime, name
        self._measured: Measurement | None = None

    def status(self, now_s: float) -> SourceRetention | None:
        """Return the status at this time, computed from the last measurement; None before the first."""
        measured = self._measured
        return None if measured is None else describe(measured, now_s)

    def run(self, heartbeat: Heartbeat) -> None:
        """Measure until a stop request; raise Transient."""
        config, source = self._runtime.config, self._runtime.config.sources[self._name]
        client = source_client(source, measured_metastore(self._runtime.calls, self._name))
        topic = source_topic(config, source)
        with closing(client) as metastore:
            for number in count():
                if heartbeat.stopping.is_set():
                    return
                status, now_s = self._runtime.status(), time.time()
                readers = tuple(find_readers(status, self._name))
                self._measured = measure(
                    metastore, self._name, read_limits(topic), readers, _relayed(status, self._name), now_s
                )
                heartbeat.progress()
                _wait(heartbeat, FIRST_S if number < _FIRST else MEASURE_S)


def _wait(heartbeat: Heartbeat, seconds: float) -> None:
    """Wait with heartbeats, until a stop request."""
    until_s = time.monotonic() + seconds
    while not heartbeat.stopping.is_set() and (left_s := until_s - time.monotonic()) > 0:
        heartbeat.beat()
        heartbeat.stopping.wait(min(left_s, 1.0))


def find_readers(status: DaemonStatus, source: str) -> Iterator[Reader]:
    """Yield the relay and the projections of a source that have a position."""
    for row in status.sources:
        if row.name == source and row.relay_state is not None and row.relayed_event_id is not None:
            yield Reader(
                f"relay:{source}",
                row.relayed_event_id,
                row.lag_s,
                reads_topic=False,
                lists_writes=row.lists_writes,
            )
    for view in status.projections:
        if view.source == source and view.event_id is not None and view.state not in ENDED:
            yield Reader(view.name, view.event_id, view.lag_s, copies_files=view.target is not None)


def _relayed(status: DaemonStatus, source: str) -> int | None:
    """Return the id of the last event in the topic; None if another daemon relays."""
    return next((row.relayed_event_id for row in status.sources if row.name == source), None)


def read_limits(topic: Topic) -> TopicLimits:
    """Return the topic's retention limits, none if it does not exist yet; raise KafkaUnavailable."""
    try:
        return topic.limits()
    except NotFound:
        return TopicLimits(NEVER)


def build_loop(runtime: Runtime, name: str) -> tuple[Job, Callable[[float], SourceRetention | None]]:
    """Return the loop of source ``name``, and a function that returns its status at a time."""
    loop = RetentionLoop(runtime, name)
    return Job(f"retention:{name}", loop.run), loop.status
