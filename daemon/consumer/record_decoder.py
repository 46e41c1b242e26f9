"""Decodes the records of a topic, and sends undecodable ones to the dead letters.

If a source signs its records, a record without a valid signature is not even decoded.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Final

from daemon.consumer.settings import ConsumerSettings, DeadLetterSink
from daemon.kafka.broker import TopicRecord
from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival
from handlers.events import Event, Undecodable, Unhandled
from state.errors import BadInput, ForeignRecord, MalformedEvent


_LARGE_BYTES: Final = 32 * 1024
_large: Final = threading.Lock()
"""A lock for decoding a large record, so that several threads do not need memory for one at the same time."""


class RecordDecoder:
    """Decodes the records of one topic."""

    def __init__(self, settings: ConsumerSettings, sink: DeadLetterSink) -> None:
        self._settings = settings
        self._sink = sink
        self.offsets_are_ids = False
        self.dead_letters = 0
        self.unknown = 0
        self.foreign = 0

    def decode(self, record: TopicRecord) -> Event | None:
        """Return the record's event. Sends a record without event id or valid signature to the dead letters,
        and returns None.
        """
        signatures = self._settings.signatures
        if (
            signatures is not None
            and record.offset is not None  # not from the notification log
            and not signatures.are_valid(record.value, record.headers)
        ):
            self.refuse_foreign(record, ForeignRecord("the record has no valid signature"), None)
            return None
        arrival = None
        if self.offsets_are_ids and record.offset is not None:
            arrival = Arrival(record.offset + 1, record.time_s)
        try:
            with _large if record.size_bytes > _LARGE_BYTES else nullcontext():
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

    def accept(self, record: TopicRecord, event: Event) -> None:
        """Count an event that is about to be delivered; send an undecodable one to the dead letters first."""
        match event:
            case Undecodable():
                self.reject(record, event)
            case Unhandled(is_known=False):
                self.unknown += 1
            case _:
                pass

    def reject(self, record: TopicRecord, event: Undecodable) -> None:
        """Send an undecodable record to the dead letters."""
        self._put(record, event.error, event.event_id)

    def refuse_foreign(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        """Send a record that is not of this source to the dead letters."""
        self._put(record, error, event_id)
        self.foreign += 1

    def _put(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        self._sink.put(record, error, event_id)
        self.dead_letters += 1
