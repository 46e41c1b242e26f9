"""Gaps of a topic whose source does not report write events: the reader finds them as the relay does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from handlers.decoding.decoder import decode
from handlers.decoding.records.record_writer import Record
from handlers.events import Event, FilesWritten, TxnCommitted
from state.event_log.positions import Position
from tests.builders.kafka.fake_topics import ListedTopic
from tests.builders.kafka.listed_source import ListedSource, delta
from tests.unit.daemon.consumer.conftest import ReaderOf
from tests.unit.daemon.consumer.test_topic_reader import drain


@pytest.fixture
def source(tmp_path: Path) -> ListedSource:
    """A source with a transaction that writes into three partitions, and an event after it."""
    source = ListedSource(tmp_path)
    source.create("p", keys=True)
    txn = source.begin(("p", 1))
    for day in ("a", "b", "c"):
        source.add_partition("p", day)
        source.lay(f"p/dt={day}", delta(1))
        source.alter_partition("p", day)
    source.commit(txn)
    source.begin()
    return source


def records_of(source: ListedSource) -> list[Record]:
    return list(source.outbox().records(1, source.log.current_event_id()))


def find_commit(records: list[Record]) -> int:
    """Return the index of the first part of the commit."""
    return next(i for i, each in enumerate(records) if decode(each.value, each.headers).parts > 1)


def partitions_of(events: list[Event]) -> list[str | None]:
    return [event.partition_name for event in events if isinstance(event, FilesWritten)]


def commit_of(events: list[Event]) -> TxnCommitted:
    (commit,) = (event for event in events if isinstance(event, TxnCommitted))
    return commit


def test_a_lost_commit_is_read_with_the_files_that_it_left(reader_of: ReaderOf, source: ListedSource) -> None:
    records = records_of(source)
    reader = reader_of(ListedTopic([records[0], records[-1]]), filler=source.outbox(fills_gaps=True))
    reader.seek(Position(0))
    events = drain(reader)
    assert events == [decode(each.value, each.headers) for each in records], "as the relay has written them"
    assert partitions_of(events) == ["dt=a", "dt=b", "dt=c"]


@pytest.mark.parametrize("read", [1, 2, 3])
def test_the_rest_of_a_commit_makes_its_tables_be_loaded_although_its_directories_have_changed(
    reader_of: ReaderOf, source: ListedSource, read: int
) -> None:
    records = records_of(source)
    start = find_commit(records)
    topic = ListedTopic([*records[: start + read], records[-1]])
    shutil.rmtree(source.root / "p" / "dt=a")
    del source.log.partitions["dt=a"]
    reader = reader_of(topic, filler=source.outbox(fills_gaps=True))
    reader.seek(Position(0))
    events = drain(reader)
    assert partitions_of(events) == ["dt=a", "dt=b", "dt=c"][:read]
    commit = commit_of(events)
    assert commit.incomplete is not None
    assert not commit.enriched
    assert events[-1].event_id == source.log.current_event_id()
    assert reader.status.position == Position(source.log.current_event_id())


def test_later_parts_of_the_topic_are_not_read_after_a_commit_was_ended(
    reader_of: ReaderOf, source: ListedSource
) -> None:
    records = records_of(source)
    start = find_commit(records)
    topic = ListedTopic([*records[: start + 1], *records[start + 2 :]])
    reader = reader_of(topic, filler=source.outbox(fills_gaps=True))
    reader.seek(Position(0))
    events = drain(reader)
    assert partitions_of(events) == ["dt=a"]
    assert commit_of(events).incomplete is not None
    assert reader.status.duplicates == 2
