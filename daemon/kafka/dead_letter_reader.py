"""Reading dead letters: what ``tideline dlq list|show|replay`` does.

Replaying a letter of a source with event ids cannot mean putting it into the topic again: events of a metastore are in order
and readers drop what they are past. It means: read it with the decoder of today. If that succeeds the program was at fault
and has been mended, and what remains is to repair the table. Only where offsets are the ids (formats without event ids, whose
order is not promised anyway) is the record written to its topic once more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from daemon.kafka.broker import BrokerSettings, kafka_failure, translated
from daemon.kafka.dead_letters import PREFIX
from daemon.kafka.topic import PARTITION
from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival
from handlers.events import Event, Undecodable
from state.errors import BadInput, KafkaUnavailable, LimitExceeded, NotFound


if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


_NOTHING_MORE: Final = frozenset(
    {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}  # noqa: SLF001 - librdkafka's local codes are spelled so
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One kept record; ``number`` is its name on the command line (its offset in the dead-letter topic)."""

    number: int
    put_at_s: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """The original headers."""
    error: dict[str, str]
    """What the ``tideline.error.*`` headers say, without the prefix."""

    @property
    def identity(self) -> tuple[str | None, ...]:
        """What repetitions of one letter share."""
        return tuple(
            self.error.get(name) for name in ("topic", "partition", "offset", "event_id", "reader", "code")
        )


class Outcome(StrEnum):
    """What replaying a letter came to."""

    READABLE = "readable"
    """It decodes now; its event was passed over, so repair the table that it names."""
    RESENT = "resent"
    """It decodes now and was written to its topic again."""
    UNREADABLE = "unreadable"
    """It still cannot be used."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One letter's outcome, with the event where there is one and the problem where there is not."""

    letter: DeadLetter
    outcome: Outcome
    event: Event | None = None
    problem: str | None = None


class LetterBox:
    """The reading end, for the command line. Use it in a ``with`` block."""

    def __init__(self, broker: BrokerSettings, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._consumer = Consumer(
            broker.librdkafka(
                group_id="tideline-dead-letters",  # the library wants one; nothing is ever committed
                enable_auto_commit=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                allow_auto_create_topics=False,
                fetch_queue_backoff_ms=5,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def letters(self) -> Iterator[DeadLetter]:
        """Yield every letter once, oldest first; none where the topic does not exist. Raises KafkaUnavailable."""
        seen = set()
        for letter in self._all():
            if letter.identity not in seen:
                seen.add(letter.identity)
                yield letter

    def letter(self, number: int) -> DeadLetter:
        """Return one letter; raise NotFound."""
        found = next(self._from(number), None)
        if found is None or found.number != number:
            raise NotFound("there is no such dead letter", number=number, topic=self._topic)
        return found

    def replay(self, letter: DeadLetter) -> Replayed:
        """Read ``letter`` with the decoder of today (see the module); raise KafkaUnavailable."""
        try:
            event, placed = _decoded(letter)
        except BadInput as error:
            return Replayed(letter, Outcome.UNREADABLE, problem=str(error))
        if isinstance(event, Undecodable):
            return Replayed(letter, Outcome.UNREADABLE, event, str(event.error))
        if placed:
            return Replayed(letter, Outcome.READABLE, event)
        self._resend(letter)
        return Replayed(letter, Outcome.RESENT, event)

    def _all(self) -> Iterator[DeadLetter]:
        try:
            with translated("read the dead letters", topic=self._topic):
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, PARTITION), timeout=self._broker.timeout_s
                )
        except NotFound:
            return
        if low < high:
            yield from self._from(low)

    def _from(self, offset: int) -> Iterator[DeadLetter]:
        """Yield the letters from ``offset`` to the end of the topic."""
        with translated("read the dead letters", topic=self._topic):
            self._consumer.assign([TopicPartition(self._topic, PARTITION, offset)])
        deadline = time.monotonic() + self._broker.timeout_s
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            error = None if message is None else message.error()
            if error is not None and error.code() in _NOTHING_MORE:
                return
            if error is not None:
                raise kafka_failure(error, "read the dead letters", topic=self._topic)
            if message is not None:
                deadline = time.monotonic() + self._broker.timeout_s
                yield _letter(message)
        raise KafkaUnavailable("the dead letters could not be read in time", topic=self._topic)

    def _resend(self, letter: DeadLetter) -> None:
        topic = letter.error["topic"]
        producer = Producer(self._broker.librdkafka(enable_idempotence=True))
        failures: list[KafkaError] = []
        with translated("write the record again", topic=topic):
            producer.produce(
                topic,
                key=letter.key,
                value=letter.value,
                partition=PARTITION,
                headers=list(letter.headers),
                on_delivery=lambda failure, _message: (
                    failures.append(failure) if failure is not None else None
                ),
            )
            left = producer.flush(self._broker.timeout_s)
        if failures or left:
            raise KafkaUnavailable("the record was not written again", topic=topic, number=letter.number)


def _letter(message: Any) -> DeadLetter:
    headers = message.headers() or []
    _, put_at_ms = message.timestamp()
    error = {
        name.removeprefix(PREFIX): (value or b"").decode(errors="replace")
        for name, value in headers
        if name.startswith(PREFIX)
    }
    original = tuple((name, value) for name, value in headers if not name.startswith(PREFIX))
    return DeadLetter(
        message.offset(), max(0, put_at_ms) // 1000, message.key(), message.value(), original, error
    )


def _decoded(letter: DeadLetter) -> tuple[Event, bool]:
    """Decode ``letter``; tell whether it says its own place in the log. Raises BadInput."""
    if "cut" in letter.error:
        raise LimitExceeded(
            "the letter holds only the beginning of the record", size_bytes=letter.error["cut"]
        )
    try:
        return decode(letter.value, letter.headers), True
    except BadInput:
        arrival = Arrival(int(letter.error.get("offset", "0")) + 1, int(letter.error.get("time", "0")))
        return decode(letter.value, letter.headers, arrival=arrival), False
