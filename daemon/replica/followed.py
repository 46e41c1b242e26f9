"""A policy's projection with its requests and loads, which it serves and advances between two batches.

A paused policy applies no events and loads no table, but serves requests. A policy that is paused, was
promoted, or waits for its bootstrap rests and needs no thread.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from daemon.consumer.projection import BUSY_WAIT_S, WAIT_S
from daemon.replica.loading.load_resources import read_range
from daemon.replica.served_requests import PolicyRequests


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from daemon.consumer.topic_reader import TopicReader
    from daemon.process.inbox import Inbox, Request
    from daemon.process.loops.heartbeat import Heartbeat
    from daemon.replica.loading.bootstrap_turns import BootstrapTurns
    from handlers.events import Event
    from handlers.failures import TableFailure
    from handlers.replication.external.cycle_thread import ExternalThread
    from handlers.replication.loading.load_thread import LoadThread
    from handlers.replication.operations.promotion import Promotion
    from handlers.replication.projection import ReplicationProjection
    from handlers.routing import Interest
    from state.event_log.positions import Position


IDLE_S: Final = 60.0
"""The longest rest of a policy that is not woken."""
_ENDINGS: Final = frozenset({"promote", "retire"})
"""Requests that end the replication."""


class FollowedReplica:
    """A policy's projection with its inbox and its loads (``daemon.consumer.projection.Projection``)."""

    def __init__(  # noqa: PLR0913 - the parts of a policy, most of them by name
        self,
        projection: ReplicationProjection,
        inbox: Inbox,
        loads: LoadThread,
        open_reader: Callable[[], TopicReader],
        *,
        bootstraps: BootstrapTurns,
        report_pause: Callable[[int | None, str], None] = lambda *_: None,
        external: ExternalThread | None = None,
        report_end: Callable[[Promotion | None], None] = lambda _: None,
        report_new: Callable[[bool], None] = lambda _: None,
        replaying: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``open_reader`` returns a second reader of the topic, for tables that catch up. ``bootstraps``
        decides when the policy may be bootstrapped.

        ``report_pause`` receives the time of a pause and its reason, and None when the policy resumes.
        ``external`` copies the files of external tables, if the policy does so. ``report_end`` receives the
        promotion that ended replication, or None if a retirement ended it. ``report_new`` receives True while
        a new policy waits for the request to bootstrap it, and False afterwards. Batches are applied within
        the context ``replaying``.
        """
        self._projection = projection
        self._inbox = inbox
        self._loads = loads
        self._open_reader = open_reader
        self._bootstraps = bootstraps
        self._report_pause = report_pause
        self._external = external
        self._report_end = report_end
        self._report_new = report_new
        self._replaying = replaying
        self._requests = PolicyRequests(projection, self.read_events, follows=True)
        self._requests_of_unopened = PolicyRequests(projection, self.read_events)
        self._heartbeat: Heartbeat | None = None
        self._rest_s = WAIT_S
        self._policy = projection.loads.context.policy.name
        self.name, self.source = projection.name, projection.source

    def connect(self, heartbeat: Heartbeat) -> None:
        """Send heartbeats during long work to ``heartbeat``, and obey its stop requests."""
        self._heartbeat = heartbeat

    def prepare(self) -> Iterator[float]:
        """Rest while the policy is paused or has ended, and until a new policy may be bootstrapped.

        A paused policy is not opened, because its target may be down for maintenance.
        """
        self._projection.recover()
        self._inbox.open()
        if self._projection.pause.since_s() is not None and not self._projection.has_ended:
            self._projection.read_state()  # what is in memory may be ahead of the state
            yield from self._rest_while_paused()
        if not self._is_stopping() and not self._projection.has_ended:
            self._projection.look_for_end()
        yield from self._rest_if_ended()
        yield from self._rest_while_new()
        if not self._is_stopping() and self._projection.needs_bootstrap():
            self._bootstraps.ask(self._policy, self._wake)
            while self._bootstraps.find_place(self._policy) is not None and not self._is_stopping():
                yield IDLE_S

    def open(self) -> Position:
        """Open the projection, and prepare tables to catch up."""
        try:
            position = self._projection.open()
        finally:
            self._bootstraps.leave(self._policy)
        self._projection.loads.catch_up(self.read_events)
        return position

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply the events, and advance loads."""
        self._rest_s = WAIT_S
        with self._replaying():
            position = self._projection.apply(events)
        self._step_loads()
        return position

    def find_interest(self) -> Interest:
        """Return the events that the policy must receive."""
        return self._projection.interest

    def skip(self, position: Position, time_s: int) -> None:
        """Continue after ``position``: the events in between concern other policies."""
        self._projection.skip(position, time_s)

    def settle(self) -> float:
        """Do the projection's deferred work, and advance loads.

        Returns how long the policy may rest. While there is no work, each rest is longer than the previous
        one.
        """
        self._projection.settle()
        rest_s = self._step_loads()
        if rest_s > WAIT_S:
            self._rest_s = min(64 * self._rest_s, IDLE_S)
        return min(self._rest_s, rest_s)

    def _step_loads(self) -> float:
        """Advance loads and the cycles of external tables; return how long they may rest."""
        if self._is_stopping():
            return WAIT_S
        self._loads.step(self._projection.loads)
        rest_s = IDLE_S if self._external is None else max(self._external.step(), WAIT_S)
        if self._projection.loads.catch_up(self.read_events):
            return BUSY_WAIT_S
        return WAIT_S if self._projection.loads.context.tables.loads.waiting() else rest_s

    def hold(self) -> Iterator[float]:
        """Serve requests; rest while the policy is paused, or has ended."""
        if self._inbox.serve(self._do):
            self._rest_s = WAIT_S
        yield from self._rest_while_paused()
        yield from self._rest_if_ended()

    def _is_stopping(self) -> bool:
        return self._heartbeat is not None and self._heartbeat.stopping.is_set()

    def _rest_while_paused(self) -> Iterator[float]:
        """Rest while the policy is paused, and serve requests meanwhile."""
        since_s = self._projection.pause.since_s()
        if since_s is None or self._heartbeat is None:
            return
        self._stop_copies()
        self._heartbeat.following()
        while since_s is not None and not self._is_stopping():
            self._report_pause(since_s, self._projection.pause.reason())
            yield IDLE_S
            self._inbox.serve(self._do)
            self._heartbeat.beat()
            since_s = None if self._projection.has_ended else self._projection.pause.since_s()
        self._report_pause(None, "")

    def _do(self, request: Request) -> Request:
        """Serve one request. If it ends the replication, stop the running copies first."""
        if request.get("do") in _ENDINGS:
            self._stop_copies()
        return self._requests.do(request)

    def _stop_copies(self) -> None:
        """Stop the running load and the running cycle of external tables."""
        self._loads.stop()
        if self._external is not None:
            self._external.stop()

    def _rest_if_ended(self) -> Iterator[float]:
        """If the policy was promoted or retired, rest until a stop request, and serve requests meanwhile."""
        if self._heartbeat is None or not self._projection.has_ended:
            return
        self._stop_copies()
        self._heartbeat.following()
        while not self._is_stopping():
            self._report_end(self._projection.find_promotion())
            self._inbox.serve(self._requests.do)
            self._heartbeat.beat()
            yield IDLE_S

    def _rest_while_new(self) -> Iterator[float]:
        """Rest until an operator requests the bootstrap of the new policy, and serve requests meanwhile."""
        if self._heartbeat is None or not self._projection.awaits_request():
            return
        self._heartbeat.following()
        while not self._is_stopping() and self._projection.awaits_request():
            self._report_new(True)
            yield IDLE_S
            self._inbox.serve(self._requests_of_unopened.do)
            self._heartbeat.beat()
            yield from self._rest_while_paused()
        self._report_new(False)

    def serve_failed(self) -> bool:
        """Serve requests while the loop waits after an error.

        Returns whether there were any, so that the loop runs again.
        """
        return self._inbox.serve(self._do_while_failed) > 0

    def _do_while_failed(self, request: Request) -> Request:
        """Serve one request. The request ``resume`` opens the policy again, even if another instance has
        fenced it.
        """
        self._projection.read_state()  # what is in memory may be ahead of the state
        if request.get("do") in _ENDINGS:
            self._stop_copies()
        answer = self._requests_of_unopened.do(request)
        if request.get("do") == "resume":
            self._stop_copies()
            self._projection.forget_claim()
            return answer | {"changed": True}  # the loop tries again
        return answer

    def read_events(self, after: int, upto: int) -> Iterator[Event]:
        """Yield the events of the topic after one id up to another."""
        return read_range(self._open_reader, after, upto, beat=self._beat, is_stopping=self._is_stopping)

    def _wake(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.wake()

    def _beat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.beat()

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables."""
        return self._projection.quarantined()

    def failures(self) -> Sequence[TableFailure]:
        """Return the reason for each quarantined table."""
        return self._projection.failures()

    def close(self) -> None:
        """Stop the running load and copies, then release everything."""
        self._bootstraps.leave(self._policy)
        self._loads.stop()
        if self._external is not None:
            self._external.close()
        self._projection.close()
