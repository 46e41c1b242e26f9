"""A relay continues after the last record of its topic, and first verifies that log and topic belong
together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from daemon.relay.start_position import Start, StoredPosition, resume
from handlers.decoding.decoder import decode
from handlers.decoding.records.encoder import encode_lost
from handlers.events import FilesWritten, TxnCommitted
from state.errors import ConfigError, GapDetected, Inconsistent, StateCorrupt
from state.event_log.positions import Position
from state.store.memory import MemoryStore
from tests.builders.kafka.fake_log import ListedLog, commit, ddl, event, write
from tests.builders.kafka.fake_topics import ListedTopic, outbox, records_of
from tests.builders.kafka.listed_source import ListedSource, delta


def log_of(last: int) -> ListedLog:
    return ListedLog(ddl(event_id) for event_id in range(1, last + 1))


def stored(position: int | None = None) -> StoredPosition:
    store = StoredPosition(MemoryStore(), "topic")
    if position is not None:
        store.save(Position(position))
    return store


def start_of(
    topic: ListedTopic, log: ListedLog, kept: StoredPosition | None = None, start: object = "current"
) -> Start:
    return resume(topic, outbox(log), kept or stored(), start)  # type: ignore[arg-type]


def test_a_relay_continues_after_the_last_record_whatever_was_stored() -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log, 1, 6))
    assert start_of(topic, log, stored(3)) == Start(Position(6), 1_700_000_006)


def test_markers_and_foreign_records_at_the_end_are_skipped() -> None:
    log = log_of(9)
    topic = ListedTopic([*records_of(log, 1, 6), None, b"hello", None, None])
    assert start_of(topic, log).position == Position(6)


@pytest.mark.parametrize("count", [1, 40])
def test_records_that_the_metastore_cannot_have_published_are_skipped_at_the_end(count: int) -> None:
    log = log_of(9)
    foreign = [encode_lost("src", range(7, 2**62 + n), 1) for n in range(count)]
    topic = ListedTopic([*records_of(log, 1, 6), *foreign])
    assert start_of(topic, log).position == Position(6)
    assert start_of(topic, log, stored(5)).position == Position(6)
    topic.append(*records_of(log, 7, 8), *foreign)
    assert start_of(topic, log).position == Position(8)


def test_repeated_records_at_the_end_do_not_move_the_relay_back() -> None:
    log = log_of(9)
    records = records_of(log)
    old = encode_lost("src", range(2, 7), 1)
    for repeated in ([records[1]], records[:6], [old], [old, records[0], old]):
        topic = ListedTopic([*records[:6], *repeated])
        assert start_of(topic, log).position == Position(6)


def test_records_above_the_metastores_newest_event_that_continue_the_topic_stop_the_relay() -> None:
    log = log_of(9)
    records = records_of(log)
    restored = log_of(5)
    for topic in (
        ListedTopic(records),
        ListedTopic(records[6:]),
        ListedTopic([*records[:5], encode_lost("src", range(3, 2**62), 1), *records[5:]]),
    ):
        for kept in (stored(), stored(8), stored(9)):
            with pytest.raises(Inconsistent):
                start_of(topic, restored, kept)


def test_a_gap_that_the_relay_itself_has_crossed_is_not_foreign() -> None:
    topic = ListedTopic([*records_of(log_of(5)), encode_lost("src", range(6, 21), 1)])
    with pytest.raises(Inconsistent):
        start_of(topic, log_of(5), stored(20))


def test_an_emptied_topic_is_continued_from_the_stored_position() -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log, 1, 6))
    topic.truncate(6)
    assert start_of(topic, log, stored(5)).position == Position(5)


def test_a_new_relay_starts_after_the_newest_event_and_remembers_that() -> None:
    log, kept = log_of(9), stored()
    assert start_of(ListedTopic(), log, kept).position == Position(9)
    log.add(ddl(10))
    assert start_of(ListedTopic(), log, kept).position == Position(9), "event 10 is not left out"


def test_a_new_relay_starts_at_the_oldest_event_that_is_kept() -> None:
    log = log_of(9)
    log.clean(up_to=4)
    assert start_of(ListedTopic(), log, start="earliest").position == Position(4)


def test_the_oldest_event_of_an_empty_log_is_the_next_one() -> None:
    log = log_of(9)
    log.clean(up_to=9)
    assert start_of(ListedTopic(), log, start="earliest").position == Position(9)
    assert start_of(ListedTopic(), ListedLog(), start="earliest").position == Position(0)


def test_a_new_relay_starts_at_a_named_event() -> None:
    assert start_of(ListedTopic(), log_of(9), start=7).position == Position(6)


@pytest.mark.parametrize("start", [0, -3, 11])
def test_a_named_event_that_the_source_does_not_have_is_refused(start: int) -> None:
    with pytest.raises(ConfigError):
        start_of(ListedTopic(), log_of(9), start=start)


def test_a_metastore_that_is_behind_the_topic_is_refused() -> None:
    topic = ListedTopic(records_of(log_of(9)))
    with pytest.raises(Inconsistent):
        start_of(topic, log_of(5))


def test_a_metastore_that_is_behind_the_stored_position_is_refused() -> None:
    with pytest.raises(Inconsistent):
        start_of(ListedTopic(), log_of(5), stored(8))


def test_another_metastores_event_under_the_same_id_is_refused() -> None:
    topic = ListedTopic(records_of(log_of(5)))
    other = ListedLog(
        [*(ddl(event_id) for event_id in range(1, 5)), event(5, "DROP_TABLE", {}, db="elsewhere"), ddl(6)]
    )
    with pytest.raises(Inconsistent) as caught:
        start_of(topic, other)
    assert caught.value.context["event_id"] == 5


def test_a_last_event_that_has_left_the_log_cannot_be_compared_and_is_accepted() -> None:
    log = log_of(9)
    topic = ListedTopic(records_of(log, 1, 6))
    log.clean(up_to=6)
    assert start_of(topic, log).position == Position(6)


def partly_written(tables: str = "ab") -> tuple[ListedTopic, ListedLog]:
    """A commit of which two parts are in the topic."""
    log = ListedLog([ddl(1), commit(2, 71), ddl(3)])
    log.writes[71] = [write(table) for table in tables]
    return ListedTopic(records_of(log)[:3]), log


def test_a_partly_written_event_is_continued_at_its_next_part() -> None:
    topic, log = partly_written()
    assert start_of(topic, log).position == Position(2, 1, 3)


def test_a_partly_written_event_whose_rest_has_left_the_log_is_a_gap() -> None:
    topic, log = partly_written()
    log.clean(up_to=2)
    with pytest.raises(GapDetected) as caught:
        start_of(topic, log)
    assert caught.value.context["expected"] == 2


@pytest.mark.parametrize("tables", ["", "ab", "abcd"])
def test_a_partly_written_commit_that_would_now_have_other_parts_is_completed_without_write_events(
    tables: str,
) -> None:
    """Replicas then fetch the write events from the source, and copy what they do not have."""
    topic, log = partly_written("abc")
    log.writes[71] = [write(table) for table in tables]
    start = start_of(topic, log)
    assert start.completion is not None
    events = [decode(record.value, record.headers) for record in start.completion.records]
    assert [(each.event_id, each.part, each.parts) for each in events] == [(2, part, 4) for part in range(4)]
    assert [each.files for each in events[2:3] if isinstance(each, FilesWritten)] == [()]
    assert isinstance(events[-1], TxnCommitted)
    assert not events[-1].enriched
    with_rest = ListedTopic([*topic.values.values(), *start.completion.records[2:], *records_of(log, 3)])
    assert start_of(with_rest, log).completion is None


def test_a_partly_relayed_commit_whose_files_were_listed_has_its_tables_loaded(tmp_path: Path) -> None:
    """The source does not report what is missing; a compaction has replaced files of one table meanwhile."""
    source = ListedSource(tmp_path)
    for table in ("t", "u"):
        source.create(table, insert_only=True)
    txn = source.begin(("t", 1), ("u", 1))
    for table in ("t", "u"):
        source.lay(table, delta(1), "000000_0")
    source.commit(txn)
    topic = ListedTopic([*source.outbox().records(1, source.log.current_event_id())][:-2])
    shutil.rmtree(tmp_path / "t" / delta(1))
    start = resume(topic, source.outbox(), StoredPosition(MemoryStore(), "topic"), "earliest")
    assert start.completion is not None
    record = start.completion.records[-1]
    end = decode(record.value, record.headers)
    assert isinstance(end, TxnCommitted)
    assert not end.enriched
    assert end.incomplete is not None


def test_a_partly_written_event_of_another_transaction_is_refused() -> None:
    topic, log = partly_written()
    log.add(commit(2, 99))
    with pytest.raises(Inconsistent, match="record"):
        start_of(topic, log)


def test_tables_to_scan_are_remembered() -> None:
    kept = stored(5)
    kept.save(Position(6), scanned={"sales.s", "sales.a"})
    kept.save(Position(7))
    assert kept.load_scanned() == {"sales.a", "sales.s"}


def test_without_tables_to_scan_none_are_remembered() -> None:
    assert stored(5).load_scanned() == set()


def test_a_stored_position_that_is_not_a_number_is_corrupt() -> None:
    store = MemoryStore()
    with store.transaction() as transaction:
        transaction.put(b"relay/topic", b"seven")
    with pytest.raises(StateCorrupt):
        StoredPosition(store, "topic").load()


def test_the_event_to_observe_from_is_stored_with_the_position() -> None:
    kept = stored()
    assert kept.load_look_back() is None
    kept.save(Position(7), 4)
    kept.save(Position(8))
    assert (kept.load(), kept.load_look_back()) == (Position(8), 4)


def test_only_complete_events_are_stored() -> None:
    kept = stored()
    kept.save(Position(7, 1, 3))
    assert kept.load() == Position(6)
