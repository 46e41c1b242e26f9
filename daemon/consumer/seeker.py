"""Where in the topic a position lies, whatever has happened to the topic meanwhile.

Nothing about offsets is stored. The place is searched by event id (``daemon.kafka.offset_search``), which takes a fraction of a second; after
a restart of the loop the remembered one is tried first. Formats without event ids have no other name for a place than the
offset: there position n means "offset n comes next", and a topic that was cut or made anew is a loss that is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import structlog

from daemon.kafka.offset_search import OffsetReader, find_next, find_offset, is_at
from handlers.decoding.decoder import Format, recognise
from handlers.decoding.messages import read_object
from state.errors import BadInput, GapDetected, KafkaUnavailable, NotFound


if TYPE_CHECKING:
    from daemon.kafka.broker import BrokerSettings
    from daemon.kafka.topic import Topic, Watermarks
    from state.positions import Position


log = structlog.get_logger(__name__)

_WITHOUT_IDS: Final[frozenset[str]] = frozenset({"apiary", "apiary-sns"})
_LOOK_BACK: Final = 50
"""Offsets at the end of the topic that are looked at to recognise its format; the last ones may be markers."""


@dataclass(frozen=True, slots=True)
class SeekResult:
    """Where to read on."""

    offset: int
    empty: bool
    """The topic holds nothing at all, so it cannot even say what is missing."""


class Seeker:
    """Finds places in one topic."""

    def __init__(self, broker: BrokerSettings, topic: Topic, form: Format | Literal["auto"]) -> None:
        self._broker = broker
        self._topic = topic
        self._form = form
        self._identity: str | None = None
        self._remembered: tuple[Position, int] | None = None
        self.offsets_are_ids = form in _WITHOUT_IDS
        self.undecided = form == "auto"
        """The format is to be recognised, and there was no record yet to recognise it by."""

    def seek(self, position: Position) -> SeekResult:
        """Return where the event after ``position`` is, or will be.

        Raises ConfigError (not a topic that keeps order), GapDetected (offsets only), KafkaUnavailable.
        """
        try:
            self._topic.verify_order()
            self._note_identity()
            with OffsetReader(self._broker, self._topic.name) as probe:
                return self._sought(probe, position)
        except NotFound as error:  # the relay makes it; until then there is nothing to read
            raise KafkaUnavailable(error.message, hint=error.hint, **error.context) from error

    def next_offset(self, position: Position) -> int | None:
        """Return where the very next event is; None where the topic does not hold it."""
        if self.offsets_are_ids:
            return None
        self._note_identity()
        with OffsetReader(self._broker, self._topic.name) as probe:
            return find_next(probe, position)

    def remember(self, position: Position, offset: int) -> None:
        """Remember that the record at ``offset`` is ``position``."""
        self._remembered = (position, offset)

    def _sought(self, probe: OffsetReader, position: Position) -> SeekResult:
        marks = probe.watermarks()
        if self.undecided and not marks.empty:
            self._recognise(probe, marks)
        if self.offsets_are_ids:
            return SeekResult(self._checked_offset(marks, position), marks.empty)
        if self._remembered is not None and self._remembered[0] == position:
            offset = self._remembered[1]
            if is_at(probe, position, offset):
                return SeekResult(offset + 1, empty=False)
        return SeekResult(find_offset(probe, position), marks.empty)

    def _recognise(self, probe: OffsetReader, marks: Watermarks) -> None:
        """Learn from the newest readable record whether the topic's records carry event ids."""
        newest = None
        for _, value in probe.values(max(marks.low, marks.high - _LOOK_BACK), marks.high):
            newest = _format_of(value) or newest
        if newest is not None:
            self.offsets_are_ids = newest in _WITHOUT_IDS
            self.undecided = False

    def _checked_offset(self, marks: Watermarks, position: Position) -> int:
        offset = position.event_id
        if not marks.low <= offset <= marks.high:
            raise GapDetected(
                "the topic no longer holds the next offset, and its format has no event ids to search for",
                topic=self._topic.name,
                expected=offset + 1,
                found=marks.low + 1,
            )
        return offset

    def _note_identity(self) -> None:
        identity = self._topic.identity()
        if self._identity not in {None, identity}:
            log.warning("the topic was deleted and made anew", topic=self._topic.name, identity=identity)
        self._identity = identity


def _format_of(value: bytes) -> Format | None:
    try:
        return recognise(read_object(value))
    except BadInput:
        return None
