"""The responder of the partition calls: answers a call from the index, or forwards it with a reason.

It answers only if the answer equals the metastore's. It forwards every other call, and counts it by its
reason. An error of the index, or a defect, also only forwards the call, so the client loses no more than the
time of the attempt.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

import structlog

from daemon.endpoint.answers.answer_cache import AnswerCache, TableContent
from daemon.endpoint.answers.arguments import Arguments, read_arguments
from daemon.endpoint.answers.partition_calls import CALLS, CALLS_OF_HIVE_4, Content, PartitionCall
from daemon.endpoint.answers.server_rules import UNANSWERABLE, ServerRules, read_rules
from daemon.endpoint.answers.table_access import Forward, NotAnswered, Reason, TableAccess, TableView
from daemon.endpoint.protocol.wire import Message
from daemon.endpoint.responders import Metastore
from handlers.catalog.index.partition_bytes import join_spec, without_write_id
from state.errors import BadInput, Refused, TidelineError
from state.partitions.filters.hive_expressions import Expression, ReadExpression


log = structlog.get_logger(__name__)

CHANGES_RULES: Final = "setMetaConf"
BUCKETS: Final = frozenset({"HIVEBUCKET2", "MANAGERAWMETADATA"})
"""Capabilities with which a client receives bucketed tables unchanged."""
KEPT_MAX: Final = 512
KEPT_BYTES_MAX: Final = 4096
"""Limits of number and size of decoded arguments that are cached, because clients repeat their calls."""


class AnswerObserver(Protocol):
    """Receives the outcome of each partition call; implementations are thread-safe and never raise."""

    def answered(
        self, request: Message, answer: Message, view: TableView, seconds: float, *, is_repeated: bool
    ) -> None:
        """Count a call answered from ``view``, which is closed. ``is_repeated`` says that the answer is a
        cached one.
        """

    def forwarded(self, call: str, reason: Reason, seconds: float) -> None:
        """Count a call that will be forwarded; ``seconds`` is the time that the attempt took."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The body of an answer."""

    body: bytes
    is_repeated: bool
    """Whether the answer is a cached one."""


class IndexAnswers:
    """Answers the partition calls of one connection."""

    def __init__(
        self,
        tables: TableAccess,
        observer: AnswerObserver,
        read: ReadExpression | None = None,
        cache: AnswerCache | None = None,
    ) -> None:
        """``read`` reads the expressions of get_partitions_by_expr; without it, the endpoint forwards such
        calls.

        Connections may share a ``cache``; by default, this connection has its own.
        """
        self._tables = tables
        self._read = read
        self._observer = observer
        self._cache = cache or AnswerCache()
        self._rules: ServerRules | None = None
        self._was_answered = False
        """Whether the last partition call of this connection got an answer, so that the next one probably
        will, too.
        """

    def respond(self, request: Message, metastore: Metastore) -> Message | None:
        """Return the answer to a partition call, or None; raises only the errors of ``metastore``."""
        call = CALLS.get(request.name)
        if call is None:
            if request.name == CHANGES_RULES:
                self._rules = UNANSWERABLE
            return None
        started = time.perf_counter()
        if self._rules is None:
            self._rules = read_rules(metastore)
        try:
            made, view = self._answer(call, request, self._rules)
        except Exception as error:  # noqa: BLE001 - after any failure the metastore can still answer
            reason = _reason_of(error, request.name)
            self._observer.forwarded(request.name, reason, time.perf_counter() - started)
            return None
        answer = request.answer(made.body)
        seconds = time.perf_counter() - started
        self._observer.answered(request, answer, view, seconds, is_repeated=made.is_repeated)
        return answer

    def _answer(self, call: PartitionCall, request: Message, rules: ServerRules) -> tuple[_Made, TableView]:
        """Return the answer and its view of the table; raise NotAnswered, and the errors of the index."""
        if rules.dialect is None:
            raise NotAnswered(Reason.SERVER)
        arrived = self._tables.arrive(is_likely=self._was_answered)
        self._was_answered = False
        arguments = _read(request)
        if not _is_known(request.name, arguments, rules):
            raise NotAnswered(Reason.REFUSED)
        if arguments.expression is not None:
            arguments = replace(arguments, tree=self._read_expression(arguments.expression))
        result = arrived.read(
            arguments.db, arguments.table, lambda view: self._make(call, request, view, arguments, rules)
        )
        if isinstance(result, Forward):
            raise NotAnswered(result.reason)
        self._was_answered = True
        return result

    def _make(
        self, call: PartitionCall, request: Message, view: TableView, arguments: Arguments, rules: ServerRules
    ) -> _Made:
        """Return the answer for a view of the table, from the cache if the table has not changed."""
        content = TableContent.of(view)
        body_before = None if content is None else self._cache.get(request, rules, content)
        if body_before is not None:
            return _Made(body_before, is_repeated=True)
        body = _make_body(call, view, arguments, rules)
        if content is not None:
            self._cache.put(request, rules, content, body)
        return _Made(body, is_repeated=False)

    def _read_expression(self, expression: bytes) -> Expression:
        tree = None if self._read is None else self._read(expression)
        if tree is None:
            raise NotAnswered(Reason.EXPRESSION)
        return tree


def _read(request: Message) -> Arguments:
    """Return the arguments of a partition call; raise NotAnswered, BadInput."""
    read = _read_kept if len(request.body) <= KEPT_BYTES_MAX else _read_arguments
    return read(request.name, request.body)


def _read_arguments(call: str, body: bytes) -> Arguments:
    return read_arguments(CALLS[call].shape, body)


_read_kept: Final = lru_cache(KEPT_MAX)(_read_arguments)  # arguments never change


def _reason_of(error: Exception, call: str) -> Reason:
    """Return the reason to forward a call that failed; log defects and failures of the index."""
    if isinstance(error, NotAnswered):
        return error.reason
    if isinstance(error, BadInput | Refused):
        return Reason.REFUSED
    if isinstance(error, TidelineError):
        log.warning("the partition index could not answer", call=call, problem=str(error))
        return Reason.UNAVAILABLE
    log.error("a partition call failed unexpectedly", call=call, exc_info=error)
    return Reason.DEFECT


def _make_body(call: PartitionCall, view: TableView, arguments: Arguments, rules: ServerRules) -> bytes:
    if arguments.user is not None and view.record.has_privileges:
        raise NotAnswered(Reason.ARGUMENTS)
    if arguments.capabilities and _is_translated(view, arguments.capabilities):
        raise NotAnswered(Reason.ARGUMENTS)
    partitions = call.find(view, arguments, rules)
    if call.content is Content.COUNT:
        return call.frame(len(partitions.names()), ())
    if call.content is Content.NAMES:
        names = partitions.names()
        return call.frame(len(names), [len(name).to_bytes(4) + name for name in names])
    payloads = partitions.payloads()
    if call.content is Content.PARTITION and not payloads:
        raise NotAnswered(Reason.REFUSED)  # the metastore reports that it does not exist
    db, _, table = view.name.partition(".")
    if call.content is Content.SPECS:
        specs = _join_specs(view, payloads, db, table)
        return call.frame(len(specs), specs)
    rows = view.snapshot.payloads.join(payloads, db, table, view.snapshot.budget)
    return call.frame(len(payloads), rows if rules.is_hive_4 else [_without_write_id(row) for row in rows])


def _is_known(call: str, arguments: Arguments, rules: ServerRules) -> bool:
    """Whether the server's Hive version has this call, and accepts the database name in this form."""
    return (rules.is_hive_4 or call not in CALLS_OF_HIVE_4) and (
        rules.has_catalogs or not arguments.names_catalog
    )


def _without_write_id(row: bytes) -> bytes:
    shorter = without_write_id(row)
    if shorter is None:
        raise NotAnswered(Reason.NOT_CERTAIN)
    return shorter


def _join_specs(view: TableView, payloads: Sequence[bytes], db: str, table: str) -> list[bytes]:
    if not payloads:
        return []
    snapshot, location = view.snapshot, view.record.location
    inflated = map(snapshot.payloads.inflate, payloads)
    spec = join_spec(inflated, db, table, location, snapshot.budget) if location else None
    if spec is None:
        raise NotAnswered(Reason.NOT_CERTAIN)  # the order of several groups is undefined
    return [spec]


def _is_translated(view: TableView, capabilities: Sequence[str]) -> bool:
    """Whether a metastore of Hive 4 changes partitions for a client with these capabilities: it hides buckets
    from some clients.
    """
    dictionary = view.snapshot.payloads.dictionary(bytes.fromhex(view.record.dictionary))
    return BUCKETS.isdisjoint(capabilities) and dictionary.is_bucketed
