"""From one record to one event, and to the dead letters where that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival
from handlers.events import Event, Undecodable, Unhandled
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from daemon.consumer.settings import ConsumerSettings, Letters
    from daemon.kafka.broker import Fetched


class Intake:
    """Decodes one topic's records."""

    def __init__(self, settings: ConsumerSettings, letters: Letters) -> None:
        self._settings = settings
        self._letters = letters
        self.offsets_are_ids = False
        self.dead_letters = 0
        self.unknown = 0

    def event(self, record: Fetched) -> Event | None:
        """Return the record's event; None where it does not say its place, and then it is with the dead letters already."""
        arrival = None
        if self.offsets_are_ids and record.offset is not None:
            arrival = Arrival(record.offset + 1, record.time_s)
        try:
            return decode(
                record.value,
                record.headers,
                format=self._settings.format,
                limits=self._settings.limits,
                arrival=arrival,
            )
        except MalformedEvent as error:
            if arrival is not None:
                return Undecodable(event_id=arrival.event_id, time_s=arrival.time_s, kind="", error=error)
            self._put(record, error, None)
            return None

    def accepted(self, record: Fetched, event: Event) -> None:
        """Account for an event that is about to be handed out; one that cannot be used is kept first."""
        match event:
            case Undecodable():
                self._put(record, event.error, event.event_id)
            case Unhandled(known=False):
                self.unknown += 1
            case _:
                pass

    def _put(self, record: Fetched, error: BadInput, event_id: int | None) -> None:
        self._letters.put(record, error, event_id)
        self.dead_letters += 1
