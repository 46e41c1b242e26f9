"""Assembles the answers of one source's endpoint from the index in the catalog's state file."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from daemon.catalog.opening import CATALOG_VERSION, catalog_path
from daemon.catalog.settings import CATALOG
from daemon.endpoint.answers.answer_cache import AnswerCache
from daemon.endpoint.answers.index_answers import IndexAnswers
from daemon.endpoint.configured.settings import SERVE
from daemon.endpoint.freshness.event_id_query import EventIdQuery
from daemon.endpoint.freshness.index_access import IndexAccess, PositionWatch
from daemon.endpoint.freshness.newest_event import Freshness, NewestEvent
from daemon.endpoint.upstream import Upstream
from daemon.endpoint.verification.differing_tables import DifferingTables
from daemon.endpoint.verification.verifier import Sample, Verifier
from handlers.catalog.index.partition_snapshot import IndexFile
from handlers.expressions.expression_reader import ExpressionReader
from state.errors import NotFound, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import Counter, Histogram

    from daemon.config.model import Config
    from daemon.endpoint.answers.table_access import Reason, TableView
    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.protocol.wire import Message
    from daemon.endpoint.responders import Responder
    from daemon.endpoint.settings import EndpointSettings
    from daemon.endpoint.verification.differing_tables import AnswerDifference
    from daemon.endpoint.verification.verifier import Outcome


log = structlog.get_logger(__name__)

COMPARE_S: Final = 60.0
"""Time in which the metastore must begin or continue the answer to a comparison."""


class SourceAnswers:
    """The answers of one source's endpoint. All its connections share them."""

    def __init__(
        self,
        config: Config,
        source: str,
        settings: EndpointSettings,
        metrics: EndpointMetrics,
        behind: Callable[[int], None],
        *,
        reads_expressions: bool = False,
    ) -> None:
        """Calls ``behind`` with the event id for which a request begins to wait; ``behind`` must return at
        once.
        """
        self._read = ExpressionReader().read if reads_expressions else None
        serve = SERVE.of(config)[source]
        self._file = IndexFile(catalog_path(config, source), schema_version=CATALOG_VERSION)
        self._query = EventIdQuery(settings)
        self._differing = DifferingTables(config.state.dir / f"serve-{source}.json")
        self._cache = AnswerCache()
        metrics.differing.set_function(lambda: len(self._differing.all()))
        metrics.answer_cache_bytes.set_function(lambda: self._cache.size)
        access = partial(
            IndexAccess,
            file=self._file,
            newest=NewestEvent(self._query),
            watch=PositionWatch(self._file.position),
            differing=self._differing,
            wait_s=serve.wait_ms / 1000,
            behind=behind,
        )
        self._access = access(freshness=serve.rule)
        # While the follower is behind, an answer that may be stale differs from the metastore's. The
        # comparison therefore uses an exact answer.
        exact = access(freshness=Freshness())
        compared = replace(settings, answer_s=COMPARE_S)

        def count(outcome: Outcome) -> None:
            metrics.compared.labels(outcome.value).inc()

        self._verifier = Verifier(
            lambda: Upstream.of_endpoint(compared),
            IndexAnswers(exact, NoObserver(), self._read, self._cache).respond,
            self._differing,
            count,
        )
        self._observer = CallObserver(metrics, serve.verify_ratio, self._verifier.offer)
        self._verifier.start()

    def responders(self) -> Sequence[Responder]:
        """Return the responders of one connection."""
        return (IndexAnswers(self._access, self._observer, self._read, self._cache),)

    def list_differing(self) -> Sequence[AnswerDifference]:
        """Return the tables whose answers differ, except those loaded again or dropped in the meantime."""
        for each in self._differing.all():
            try:
                with self._file.snapshot() as snapshot:
                    number = snapshot.index.table(each.table).number
            except NotFound:
                number = None
            except TidelineError:
                continue  # the state file is unreadable now
            if number != each.number:
                self._differing.forget(each.table)
        return self._differing.all()

    def close(self) -> None:
        """Stop verifying and close the index."""
        self._verifier.close()
        self._file.close()


def open_answers(
    config: Config,
    source: str,
    settings: EndpointSettings,
    metrics: EndpointMetrics,
    behind: Callable[[int], None] = lambda _event_id: None,
) -> SourceAnswers | None:
    """Return the answers from the index of a source; None if this process can read no index of it."""
    catalog = CATALOG.of(config).get(source)
    partitions = None if catalog is None else catalog.partitions
    if partitions is None or partitions.store != "sqlite":
        reason = "the source has no partition index" if partitions is None else "the index is in HBase"
        log.warning("every call is forwarded", source=source, reason=reason)
        return None
    reads = partitions.read_expressions
    return SourceAnswers(config, source, settings, metrics, behind, reads_expressions=reads)


@dataclass(frozen=True, slots=True)
class _CallCounters:
    """The counters of one call, kept because a lookup by label takes longer than counting."""

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
    """Counts the outcome of every partition call (``index_answers.AnswerObserver``). Thread-safe, never
    raises.
    """

    def __init__(
        self,
        metrics: EndpointMetrics,
        verify_ratio: float,
        offer: Callable[[Sample], None],
    ) -> None:
        self._metrics = metrics
        self._verify_ratio = verify_ratio
        self._offer = offer
        self._counters: dict[str, _CallCounters] = {}

    def answered(
        self, request: Message, answer: Message, view: TableView, seconds: float, *, is_repeated: bool
    ) -> None:
        """Count an answer, and offer a sample of the answers for verification."""
        count = self._counters.get(request.name) or self._counters.setdefault(
            request.name, _CallCounters.of(self._metrics, request.name)
        )
        count.answered.inc()
        count.seconds.observe(seconds)
        count.bytes.inc(len(answer.body))
        if is_repeated:
            count.repeated.inc()
        if self._verify_ratio and random.random() < self._verify_ratio:  # noqa: S311 - a sample
            number = view.snapshot.index.table(
                view.name
            ).number  # the snapshot has ended; the view remembers its table
            self._offer(Sample(request, answer, view.name, number, view.event_id))

    # ARG002: counted with the forwarded call
    def forwarded(self, call: str, reason: Reason, seconds: float) -> None:  # noqa: ARG002
        """Count a forwarded call."""
        self._metrics.not_answered.labels(call, reason.value).inc()


class NoObserver:
    """Counts nothing: for answers that only serve a comparison."""

    def answered(
        self, request: Message, answer: Message, view: TableView, seconds: float, *, is_repeated: bool
    ) -> None:
        """Ignore an answer."""

    def forwarded(self, call: str, reason: Reason, seconds: float) -> None:
        """Ignore a forwarded call."""
