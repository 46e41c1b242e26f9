"""Verification: a sample of the answers from the index is compared with the metastore's, in a thread of its own.

The source changes meanwhile, so one difference proves nothing. The metastore's answer is therefore requested between two answers of the
index: the live one and a later one. If those two are equal, and the metastore's differs from them, the table has not changed in between as
far as the index knows. This must be so ``ATTEMPTS`` times in a row before it counts as a difference. A table that changes all the time
remains undecided. Later answers contain everything that was committed before them, even if live ones need not: otherwise a follower that
is a second behind would look like a difference.

A difference is logged and counted, and the table's calls are forwarded from then on (``differing_tables``).
"""

from __future__ import annotations

import queue
import shlex
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from thrift.Thrift import TMessageType

from daemon.endpoint.protocol.wire import read_fields
from daemon.endpoint.verification.comparison import is_same_answer
from daemon.endpoint.verification.differing_tables import Difference
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.endpoint.protocol.wire import Message
    from daemon.endpoint.responders import Metastore
    from daemon.endpoint.verification.differing_tables import DifferingTables


log = structlog.get_logger(__name__)

ATTEMPTS: Final = 3
"""How often an answer must differ."""
WAITING_MAX: Final = 32
"""Samples that may wait for their comparison; further ones are dropped."""
SAMPLE_BYTES_MAX: Final = 16 << 20
"""Larger answers are not compared, because samples are held in memory."""


class Outcome(StrEnum):
    """The result of one comparison; the values are labels of a metric."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"
    """The table changed during every attempt, or is not answered from the index any more."""
    FAILED = "failed"
    """The metastore could not be queried, or reported an error."""
    DROPPED = "dropped"
    """Too many samples were waiting, or the answer is too large."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer from the index, and what it was made from."""

    request: Message
    answer: Message
    table: str
    number: int
    event_id: int


class AnswerAgain(Protocol):
    """Answers a request from the index, as for a client."""

    def __call__(self, request: Message, metastore: Metastore) -> Message | None:
        """Return the answer of an index that is not behind; None if the call would be forwarded."""


class Verifier:
    """Compares samples until it is closed; ``offer`` is for any thread and returns at once."""

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
        """Have a sample compared, unless too many are waiting."""
        if len(sample.answer.body) > SAMPLE_BYTES_MAX:
            self._count(Outcome.DROPPED)
            return
        try:
            self._waiting.put_nowait(sample)
        except queue.Full:
            self._count(Outcome.DROPPED)

    def close(self) -> None:
        """Stop after the comparison in progress; waiting samples are dropped."""
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
            "an answer from the index differs from the metastore's; the table's calls are forwarded from now on",
            table=sample.table,
            call=sample.request.name,
            event_id=sample.event_id,
            hint=f"Run 'tideline partitions load {shlex.quote(sample.table)}'.",
        )
        self._differing.add(
            Difference(sample.table, sample.number, sample.request.name, sample.event_id, int(time.time()))
        )

    def _run(self) -> None:
        while (sample := self._waiting.get()) is not None:
            self.compare(sample)
