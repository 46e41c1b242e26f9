"""Finds the offset of a position, even after a truncation or recreation of the topic.

Tideline does not store offsets. A seek has up to four steps:

1. verify that the topic has one partition, and note whether it is a new topic of the same name;
2. detect whether its format has event ids, unless the configuration names the format;
3. after a restart of the loop, try the offset that is still in memory;
4. search by event id (``daemon.kafka.offset_search``), which takes a fraction of a second.

Formats without event ids have only offsets: there, position n means "offset n comes next", and steps 3 and 4
only verify that the topic still has this offset. If it does not, there is a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import structlog

from daemon.kafka.broker import BrokerSettings
from daemon.kafka.offset_search import OffsetReader, find_next, find_offset, is_at
from daemon.kafka.signatures import Signatures
from daemon.kafka.topic import Topic, Watermarks
from handlers.decoding.decoder import Format, recognise
from handlers.decoding.messages import read_object
from state.errors import BadInput, GapDetected, KafkaUnavailable, NotFound
from state.event_log.positions import Position


log = structlog.get_logger(__name__)

_WITHOUT_IDS: Final[frozenset[str]] = frozenset({"apiary", "apiary-sns"})
_LOOK_BACK: Final = 50
"""How many offsets at the end of the topic to read to detect its format; the last ones may be markers."""


@dataclass(frozen=True, slots=True)
class SeekResult:
    """Where to continue reading."""

    offset: int
    empty: bool
    """Whether the topic is empty, so that it cannot show a gap."""


class Seeker:
    """Finds offsets in one topic."""

    def __init__(
        self,
        broker: BrokerSettings,
        topic: Topic,
        form: Format | Literal["auto"],
        signatures: Signatures | None = None,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._signatures = signatures
        self._identity: str | None = None
        self._remembered: tuple[Position, int] | None = None
        self.offsets_are_ids = form in _WITHOUT_IDS
        self.undecided = form == "auto"
        """Whether the format is still open, because the topic has had no record yet."""

    def seek(self, position: Position) -> SeekResult:
        """Return the offset of the event after ``position``, even if it does not exist yet.

        Raises ConfigError (the topic cannot preserve order), GapDetected (offsets only), KafkaUnavailable.
        """
        try:
            self._topic.verify_order()  # 1.
            self._check_identity()
            with OffsetReader(self._broker, self._topic.name) as records:
                return self._find_start(records, position)
        except NotFound as error:  # the relay creates it; until then there is nothing to read
            raise KafkaUnavailable(error.message, hint=error.hint, **error.context) from error

    def look_back(self, position: Position, records: int) -> Position:
        """Return a position up to ``records`` records earlier; raise the errors of ``seek``."""
        end = self.seek(position).offset
        with OffsetReader(self._broker, self._topic.name) as reader:
            low = max(reader.watermarks().low, end - records)
            if self.offsets_are_ids:
                return Position(low)
            found = reader.first_from(low, end)
        if found is None:
            return position
        first = found.position  # in the middle of an event, continue after it
        return min(position, Position(first.event_id) if first.part else Position.before(first.event_id))

    def next_offset(self, position: Position) -> int | None:
        """Return the offset of the next event; None if the topic does not have it with a valid signature."""
        if self.offsets_are_ids:
            return None
        self._check_identity()
        with OffsetReader(self._broker, self._topic.name) as records:
            offset = find_next(records, position)
        if offset is None or self._signatures is None:
            return offset
        with OffsetReader(self._broker, self._topic.name, self._signatures) as signed:
            return None if signed.first_from(offset, offset + 1) is None else offset

    def remember(self, position: Position, offset: int) -> None:
        """Remember that the record at ``offset`` has ``position``."""
        self._remembered = (position, offset)

    def _find_start(self, records: OffsetReader, position: Position) -> SeekResult:
        marks = records.watermarks()
        if self.undecided and not marks.empty:
            self._recognise(records, marks)  # 2.
        if self.offsets_are_ids:
            return SeekResult(self._check_offset(marks, position), marks.empty)
        if self._remembered is not None and self._remembered[0] == position:
            offset = self._remembered[1]
            if is_at(records, position, offset):  # 3.
                return SeekResult(offset + 1, empty=False)
        return SeekResult(find_offset(records, position), marks.empty)  # 4.

    def _recognise(self, records: OffsetReader, marks: Watermarks) -> None:
        """Detect from the newest readable record whether the topic's records contain event ids."""
        newest = None
        for _, value in records.values(max(marks.low, marks.high - _LOOK_BACK), marks.high):
            newest = _format_of(value) or newest
        if newest is not None:
            self.offsets_are_ids = newest in _WITHOUT_IDS
            self.undecided = False

    def _check_offset(self, marks: Watermarks, position: Position) -> int:
        offset = position.event_id
        if not marks.low <= offset <= marks.high:
            raise GapDetected(
                "the topic no longer has the next offset, and its format has no event ids to search for",
                topic=self._topic.name,
                expected=offset + 1,
                found=marks.low + 1,
            )
        return offset

    def _check_identity(self) -> None:
        identity = self._topic.identity()
        if self._identity not in {None, identity}:
            log.warning("the topic was deleted and created again", topic=self._topic.name, identity=identity)
        self._identity = identity


def _format_of(value: bytes) -> Format | None:
    try:
        return recognise(read_object(value))
    except BadInput:
        return None
