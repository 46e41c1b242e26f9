"""Counts what happened to partition calls, and chooses the answers that are verified."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.endpoint.verification.verifier import Sample


if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import Counter, Histogram

    from daemon.endpoint.answers.table_access import Reason, TableView
    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.protocol.wire import Message


@dataclass(frozen=True, slots=True)
class _CallCounters:
    """The metrics of one call: looking them up by their label takes longer than counting."""

    answered: Counter
    repeated: Counter
    seconds: Histogram
    bytes: Counter

    @staticmethod
    def of(metrics: EndpointMetrics, call: str) -> _CallCounters:
        """Return the metrics of a call."""
        return _CallCounters(
            metrics.answered.labels(call),
            metrics.repeated.labels(call),
            metrics.answer_s.labels(call),
            metrics.answer_bytes.labels(call),
        )


class CallObserver:
    """Receives the outcome of every partition call (``index_answers.AnswerObserver``); thread-safe, never raises."""

    def __init__(
        self,
        metrics: EndpointMetrics,
        verify_ratio: float,
        offer: Callable[[Sample], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._metrics = metrics
        self._verify_ratio = verify_ratio
        self._offer = offer
        self._draw = draw
        self._counters: dict[str, _CallCounters] = {}

    def answered(
        self, request: Message, answer: Message, view: TableView, seconds: float, *, is_repeated: bool
    ) -> None:
        """Count an answer, and offer some for verification."""
        count = self._counters.get(request.name) or self._counters.setdefault(
            request.name, _CallCounters.of(self._metrics, request.name)
        )
        count.answered.inc()
        count.seconds.observe(seconds)
        count.bytes.inc(len(answer.body))
        if is_repeated:
            count.repeated.inc()
        if self._verify_ratio and self._draw() < self._verify_ratio:
            number = view.snapshot.index.table(
                view.name
            ).number  # the snapshot has ended; the view remembers its table
            self._offer(Sample(request, answer, view.name, number, view.event_id))

    def forwarded(self, call: str, reason: Reason, seconds: float) -> None:  # noqa: ARG002 - counted with the forwarded call
        """Count a call that is forwarded."""
        self._metrics.not_answered.labels(call, reason.value).inc()


class NoObserver:
    """Ignores everything: for answers that are made for a comparison only."""

    def answered(
        self, request: Message, answer: Message, view: TableView, seconds: float, *, is_repeated: bool
    ) -> None:
        """Ignore an answer."""

    def forwarded(self, call: str, reason: Reason, seconds: float) -> None:
        """Ignore a forwarded call."""
