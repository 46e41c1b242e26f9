"""Reader of the dead-letter topic, for ``tideline dlq list|show|replay`` and the API.

A replay has up to three steps:

1. Decode the record with the current version. If that fails, the outcome is ``unreadable``.
2. If the record contains its event id, the outcome is ``readable``, and the replay ends. The version that
   wrote the dead letter had a defect, and the table still needs a repair. The replay does not publish the
   record again, because events have an order and readers skip those that they have passed.
3. Otherwise the record's format has no event ids, and no order to preserve: write it to its topic again
   (``resent``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from daemon.kafka.broker import BrokerSettings, translate_error, translate_errors
from daemon.kafka.dead_letters import PREFIX
from daemon.kafka.topic import PARTITION
from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival
from handlers.events import Event, Undecodable
from state.errors import BadInput, KafkaUnavailable, LimitExceeded, NotFound


_NOTHING_MORE: Final = frozenset(
    # SLF001: librdkafka's local codes are spelled so
    {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}  # noqa: SLF001
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter. Its ``number`` is its offset in the dead-letter topic, by which users name it."""

    number: int
    put_at_s: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """The original headers."""
    error: dict[str, str]
    """The ``tideline.error.*`` headers, without the prefix."""

    @property
    def identity(self) -> tuple[str | None, ...]:
        """The identity of the record, which all repetitions of its dead letter share."""
        return tuple(
            self.error.get(name) for name in ("topic", "partition", "offset", "event_id", "reader", "code")
        )


class ReplayOutcome(StrEnum):
    """The kind of result of a replay."""

    READABLE = "readable"
    """This version can decode it. The reader skipped its event, so the table that it names needs a repair."""
    RESENT = "resent"
    """This version can decode it, and has written it to its topic again."""
    UNREADABLE = "unreadable"
    """It is still undecodable."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result for one dead letter, with its event or its problem."""

    letter: DeadLetter
    outcome: ReplayOutcome
    event: Event | None = None
    problem: str | None = None


class DeadLetterReader:
    """Reads the dead-letter topic. Use it in a ``with`` block."""

    def __init__(self, broker: BrokerSettings, topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._consumer = Consumer(
            broker.librdkafka(
                group_id="tideline-dead-letters",  # required by the library; nothing is ever committed
                enable_auto_commit=False,
                enable_partition_eof=True,
                auto_offset_reset="error",
                allow_auto_create_topics=False,
                fetch_queue_backoff_ms=5,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def read_all(self) -> Iterator[DeadLetter]:
        """Yield every dead letter once, oldest first; none if the topic does not exist.

        Raises KafkaUnavailable.
        """
        return _distinct(self._since(0))

    def read_last(self, count: int) -> Sequence[DeadLetter]:
        """Return the dead letters among the last ``count`` records, each once, newest first.

        Raises KafkaUnavailable.
        """
        _, high = self._find_ends()
        return list(_distinct(self._since(high - count)))[::-1]

    def read(self, number: int) -> DeadLetter:
        """Return one dead letter; raise NotFound."""
        low, high = self._find_ends()
        letter = next(self._from(number), None) if low <= number < high else None
        if letter is None or letter.number != number:
            raise NotFound("there is no such dead letter", number=number, topic=self._topic)
        return letter

    def replay(self, letter: DeadLetter) -> ReplayResult:
        """Decode ``letter`` again, and resend it if its format has no event ids (see the module docstring).

        Raises KafkaUnavailable.
        """
        try:
            event, has_event_id = _decode(letter)  # 1.
        except BadInput as error:
            return ReplayResult(letter, ReplayOutcome.UNREADABLE, problem=str(error))
        if isinstance(event, Undecodable):
            return ReplayResult(letter, ReplayOutcome.UNREADABLE, event, str(event.error))
        if has_event_id:  # 2.
            return ReplayResult(letter, ReplayOutcome.READABLE, event)
        self._resend(letter)  # 3.
        return ReplayResult(letter, ReplayOutcome.RESENT, event)

    def _since(self, number: int) -> Iterator[DeadLetter]:
        low, high = self._find_ends()
        if low < high:
            yield from self._from(max(low, number))

    def _find_ends(self) -> tuple[int, int]:
        """Return the topic's oldest offset and the offset after its newest; equal if there is no record."""
        try:
            with translate_errors("read the dead letters", topic=self._topic):
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(self._topic, PARTITION), timeout=self._broker.timeout_s
                )
        except NotFound:
            return 0, 0
        return low, high

    def _from(self, offset: int) -> Iterator[DeadLetter]:
        """Yield the dead letters from ``offset`` to the end of the topic."""
        with translate_errors("read the dead letters", topic=self._topic):
            self._consumer.assign([TopicPartition(self._topic, PARTITION, offset)])
        deadline = time.monotonic() + self._broker.timeout_s
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.2)
            error = None if message is None else message.error()
            if error is not None and error.code() in _NOTHING_MORE:
                return
            if error is not None:
                raise translate_error(error, "read the dead letters", topic=self._topic)
            if message is not None:
                deadline = time.monotonic() + self._broker.timeout_s
                yield _dead_letter(message)
        raise KafkaUnavailable("the dead letters could not be read in time", topic=self._topic)

    def _resend(self, letter: DeadLetter) -> None:
        topic = letter.error["topic"]
        producer = Producer(self._broker.librdkafka(enable_idempotence=True))
        failures: list[KafkaError] = []
        with translate_errors("write the record again", topic=topic):
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
            raise KafkaUnavailable("the record could not be written again", topic=topic, number=letter.number)


def _distinct(letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    """Yield each dead letter once, without its repetitions."""
    seen = set()
    for letter in letters:
        if letter.identity not in seen:
            seen.add(letter.identity)
            yield letter


def _dead_letter(message: Any) -> DeadLetter:
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


def _decode(letter: DeadLetter) -> tuple[Event, bool]:
    """Decode ``letter``; return its event, and whether the record contains its event id. Raises BadInput."""
    if "cut" in letter.error:
        raise LimitExceeded(
            "the dead letter contains only the beginning of the record", size_bytes=letter.error["cut"]
        )
    try:
        return decode(letter.value, letter.headers), True
    except BadInput:
        arrival = Arrival(int(letter.error.get("offset", "0")) + 1, int(letter.error.get("time", "0")))
        return decode(letter.value, letter.headers, arrival=arrival), False
