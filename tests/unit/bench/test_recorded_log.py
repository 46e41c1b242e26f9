"""The notification log with which relay and decoder are measured."""

from __future__ import annotations

from collections import Counter

from bench.events.recorded_log import SHARES, RecordedLog
from handlers.decoding.decoder import decode
from handlers.decoding.records.encoder import encode
from handlers.events import Undecodable, Unhandled


def test_the_log_has_contiguous_ids_and_the_types_in_their_shares() -> None:
    log = RecordedLog(200)
    events = log.next_events(0, 1_000)
    assert [event.eventId for event in events] == list(range(1, 201))
    assert Counter(event.eventType for event in events) == {kind: 2 * share for kind, share in SHARES.items()}
    assert log.next_events(200, 10) == []


def test_everything_in_it_decodes() -> None:
    log = RecordedLog(100)
    for event in log.next_events(0, 100):
        writes = log.write_events(1) if event.eventType == "COMMIT_TXN" else None
        for record in encode("s", event, writes, record_bytes_max=1 << 19):
            assert not isinstance(decode(record.value, record.headers), Undecodable | Unhandled)
