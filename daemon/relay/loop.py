"""One source's relay as a loop that the supervisor runs: start where the topic ends, follow, and say what became of it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from daemon.kafka.offset_search import OffsetReader
from daemon.relay.publisher import Publisher
from daemon.relay.resuming import Start, StoredPosition, resume
from daemon.relay.settings import RelaySettings, RelayStatus
from daemon.relay.tailing import Tail
from daemon.sources.outbox import outbox_of
from handlers.failpoints import failpoint
from state.errors import GapDetected, KafkaUnavailable, NotFound, TidelineError, Transient


if TYPE_CHECKING:
    from daemon.kafka.broker import BrokerSettings
    from daemon.kafka.topic import Topic
    from daemon.process.heartbeat import Heartbeat
    from daemon.sources.commits import Connect
    from state.store import Store


class Relay:
    """One source's relay. ``run`` is the loop, ``status`` may be read by any thread."""

    def __init__(
        self, broker: BrokerSettings, topic: Topic, connect: Connect, store: Store, settings: RelaySettings
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._settings = settings
        self._stored = StoredPosition(store, topic.name)
        self._outbox = outbox_of(connect, settings, topic)
        self.status = RelayStatus(settings.source, topic.name)

    def run(self, heartbeat: Heartbeat) -> None:
        """Relay until ``heartbeat`` says stop.

        Raises ConfigError (the topic cannot be used), GapDetected, Inconsistent (another metastore), LimitExceeded, and
        Transient: then ``run`` may be called again and goes on where the topic ends.
        """
        self.status = replace(self.status, state="starting")
        try:
            with closing(self._outbox):
                self._run(heartbeat)
        except TidelineError as error:
            self._failed(error)
            raise
        self.status = replace(self.status, state="stopped")

    def _run(self, heartbeat: Heartbeat) -> None:
        self._topic.ensure()
        failpoint("relay.topic-ensured")
        start = self._start()
        failpoint("relay.resumed")
        publisher = Publisher(self._broker, self._topic.settings, self._settings, after=start.position)
        with closing(publisher):
            heartbeat.following()
            tail = Tail(self._outbox, publisher, self._stored, self._settings, start, self._tell, self.status)
            tail.follow(heartbeat)

    def _start(self) -> Start:
        try:
            with OffsetReader(self._broker, self._topic.name) as probe:
                return resume(probe, self._outbox, self._stored, self._settings.start)
        except (
            NotFound
        ) as error:  # ensured a moment ago: this broker does not know it yet, or it was deleted since
            raise KafkaUnavailable(error.message, hint=error.hint, **error.context) from error

    def _tell(self, status: RelayStatus) -> None:
        self.status = status

    def _failed(self, error: TidelineError) -> None:
        self.status = replace(
            self.status,
            state="starting" if isinstance(error, Transient) else "failed",
            errors=self.status.errors + 1,
            gaps=self.status.gaps + isinstance(error, GapDetected),
            problem=str(error),
        )
