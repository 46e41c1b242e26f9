"""Verification: compares a sample of the answers from the index with the metastore's, in its own thread.

The source changes meanwhile, so one difference proves nothing. The metastore's answer is therefore requested
between two answers of the index: the live one and a later one. If those two are equal and the metastore's
differs from them, the table has probably not changed in between. This must happen ``ATTEMPTS`` times in a row
to count as a difference. A table that changes all the time remains undecided. Later answers contain
everything committed before them, even if live ones need not: otherwise a follower that is a second behind
would look like a difference.

It logs and counts a difference, and the endpoint forwards the table's calls from then on
(``differing_tables``).

Two answers are equal if they have the same fields, in any order of maps and sets. The comparison uses generic
values, without their declarations, so it forgets no field. ``UNORDERED`` calls are those for which a
metastore defines no order: its SQL has no ORDER BY, so rows come in the order of the index that the database
chose. Hive 4.2 does this for names, Hive 2.3 and 3.1 for partitions as well.
"""

from __future__ import annotations

import queue
import shlex
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import structlog
from thrift.Thrift import TMessageType, TType

from daemon.endpoint.protocol.wire import Message, read_fields
from daemon.endpoint.responders import Metastore
from daemon.endpoint.verification.differing_tables import AnswerDifference, DifferingTables
from state.errors import BadInput, TidelineError


log = structlog.get_logger(__name__)

ATTEMPTS: Final = 3
"""How often an answer must differ."""
WAITING_MAX: Final = 32
"""Samples that may wait for their comparison; further ones are dropped."""
SAMPLE_BYTES_MAX: Final = 16 << 20
"""Larger answers are not compared, because samples are in memory."""
_NUMBERS: Final = {TType.BOOL: ">b", TType.BYTE: ">b", TType.I16: ">h", TType.I32: ">i", TType.I64: ">q"}
_DEPTH_MAX: Final = 64
UNORDERED_IN_HIVE_4: Final = frozenset({"get_partition_names_ps", "get_partition_names_ps_req"})
UNORDERED: Final = UNORDERED_IN_HIVE_4 | {"get_partitions_ps", "get_partitions_ps_with_auth"}


class Outcome(StrEnum):
    """The result of one comparison; the values are labels of a metric."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"
    """The table changed during every attempt, or the index no longer answers for it."""
    FAILED = "failed"
    """The metastore did not answer, or reported an error."""
    DROPPED = "dropped"
    """Too many samples were waiting, or the answer is too large."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer from the index, and its origin."""

    request: Message
    answer: Message
    table: str
    number: int
    event_id: int


class AnswerAgain(Protocol):
    """Answers a request from the index in the same way as for a client."""

    def __call__(self, request: Message, metastore: Metastore) -> Message | None:
        """Return the answer once the index is up to date; None if the endpoint would forward the call."""


class Verifier:
    """Compares samples until ``close``. ``offer`` is thread-safe and returns at once."""

    def __init__(
        self,
        connect: Callable[[], Metastore],
        answer: AnswerAgain,
        differing: DifferingTables,
        count: Callable[[Outcome], None],
    ) -> None:
        self._connect = connect
        self._answer = answer
        self._differing = differing
        self._count = count
        self._metastore: Metastore | None = None
        self._waiting: queue.Queue[Sample | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="verification", daemon=True)

    def start(self) -> None:
        """Start comparing."""
        self._thread.start()

    def offer(self, sample: Sample) -> None:
        """Queue a sample for comparison, unless it is too large or too many are waiting."""
        if len(sample.answer.body) > SAMPLE_BYTES_MAX:
            self._count(Outcome.DROPPED)
            return
        try:
            self._waiting.put_nowait(sample)
        except queue.Full:
            self._count(Outcome.DROPPED)

    def close(self) -> None:
        """Stop after the comparison in progress; drop waiting samples."""
        while True:
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                self._waiting.get_nowait()
            else:
                return

    def compare(self, sample: Sample) -> Outcome:
        """Compare one sample; never raises."""
        try:
            self._metastore = self._metastore or self._connect()
            outcome = self._compare(sample, self._metastore)
        except Exception as error:  # noqa: BLE001 - after any failure the next sample is compared on another connection
            self._metastore = None
            level = log.debug if isinstance(error, TidelineError) else log.error
            level("an answer could not be compared", call=sample.request.name, problem=str(error))
            outcome = Outcome.FAILED
        self._count(outcome)
        if outcome is Outcome.DIFFERENT:
            self._report(sample)
        return outcome

    def _compare(self, sample: Sample, metastore: Metastore) -> Outcome:
        before, different = sample.answer, 0
        for _ in range(ATTEMPTS):
            theirs = metastore.exchange(sample.request)
            if theirs.header.kind != TMessageType.REPLY or 0 not in read_fields(theirs.body):
                return Outcome.FAILED
            after = self._answer(sample.request, metastore)
            if after is None:
                return Outcome.UNDECIDED
            call = sample.request.name
            if any(is_same_answer(theirs.body, each.body, call) for each in (before, after)):
                return Outcome.EQUAL
            different += is_same_answer(before.body, after.body)
            before = after
        return Outcome.DIFFERENT if different == ATTEMPTS else Outcome.UNDECIDED

    def _report(self, sample: Sample) -> None:
        log.error(
            "an answer from the index differs from the metastore's; calls of the table are forwarded from "
            "now on",
            table=sample.table,
            call=sample.request.name,
            event_id=sample.event_id,
            hint=f"Run 'tideline partitions load {shlex.quote(sample.table)}'.",
        )
        self._differing.add(
            AnswerDifference(
                sample.table, sample.number, sample.request.name, sample.event_id, int(time.time())
            )
        )

    def _run(self) -> None:
        while (sample := self._waiting.get()) is not None:
            self.compare(sample)


def is_same_answer(one: bytes, other: bytes, call: str = "") -> bool:
    """Whether two answers to ``call`` are equal; raise BadInput if one is malformed."""
    if one == other:
        return True
    ours, theirs = read_value(one), read_value(other)
    return bool(_sort_lists(ours) == _sort_lists(theirs) if call in UNORDERED else ours == theirs)


def _sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {number: (kind, _sort_lists(each)) for number, (kind, each) in value.items()}
    return sorted(value, key=repr) if isinstance(value, list) else value


def read_value(data: bytes) -> Any:
    """Return a struct as nested tuples and dictionaries; raise BadInput."""
    try:
        value, end = _read_struct(data, 0, 0)
    except (struct.error, IndexError, TypeError) as error:
        raise BadInput("the answer is not valid Thrift", reason=str(error)) from error
    if end != len(data):
        raise BadInput("bytes follow the end of the answer", bytes=len(data) - end)
    return value


def _read_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    while kind := data[at]:
        (number,) = struct.unpack_from(">h", data, at + 1)
        value, at = _read(data, at + 3, kind, depth)
        fields[number] = (kind, value)
    return fields, at + 1


def _read(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _DEPTH_MAX:
        raise BadInput("the answer is nested too deeply")
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if kind == TType.DOUBLE:
        return data[at : at + 8], at + 8  # as bytes: NaN equals itself
    if kind == TType.STRING:
        (size,) = struct.unpack_from(">i", data, at)
        return _take(data, at + 4, size)
    if kind == TType.STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind in {TType.LIST, TType.SET}:
        return _read_elements(data, at, kind, depth + 1)
    if kind == TType.MAP:
        return _read_map(data, at, depth + 1)
    raise BadInput("the answer has a value of an unknown type", type=kind)


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise BadInput("a string of the answer is longer than the answer", bytes=size)
    return data[at : at + size], at + size


def _read_elements(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    element, size = struct.unpack_from(">bi", data, at)
    at += 5
    values = []
    for _ in range(size):
        value, at = _read(data, at, element, depth)
        values.append(value)
    return (values if kind == TType.LIST else sorted(values, key=repr)), at


def _read_map(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    keys, values, size = struct.unpack_from(">bbi", data, at)
    at += 6
    pairs = []
    for _ in range(size):
        key, at = _read(data, at, keys, depth)
        value, at = _read(data, at, values, depth)
        pairs.append((key, value))
    return sorted(pairs, key=repr), at
