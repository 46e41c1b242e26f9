"""A projection reads together with the others of its source, near the end or behind it, else on its own, and
receives each of its events once in each case."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.consumer import topic_reader as reading_module
from daemon.consumer.fetcher import FetchResult
from daemon.consumer.settings import ConsumerSettings, SharingSettings
from daemon.consumer.shared.reader import SharedReader
from daemon.consumer.shared.subscription import Subscription
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.broker import BrokerSettings
from handlers.routing import Interest
from state.errors import ConfigError, GapDetected, KafkaUnavailable
from state.event_log.positions import Position
from tests.builders.daemon.loops import DEADLINE_S, eventually
from tests.builders.kafka.fake_log import ListedLog, ddl, event
from tests.builders.kafka.fake_topics import (
    ListedFetcher,
    ListedLetters,
    ListedSeeker,
    ListedTopic,
    records_of,
)


READ_S = 0.05


class SharedTopic(ListedTopic):
    """A topic that several clients read at once; counts them, and fails them if it is set to."""

    failure: Exception | None = None
    offsets_are_ids = False
    clients = 0


class SharedFetcher(ListedFetcher):
    def __init__(self, topic: SharedTopic, offset: int) -> None:
        super().__init__(topic, offset)
        topic.clients += 1

    def take(self, limit: int, timeout_s: float) -> FetchResult:
        assert isinstance(self.topic, SharedTopic)
        if self.topic.failure is not None:
            raise self.topic.failure
        result = super().take(limit, timeout_s)
        if not result.records:
            threading.Event().wait(0.002)  # as at the end of a real topic
        return result

    def close(self) -> None:
        assert isinstance(self.topic, SharedTopic)
        self.topic.clients -= not self.closed
        super().close()


class SharedSeeker(ListedSeeker):
    def look_back(self, position: Position, records: int) -> Position:
        offset = max(self.topic.low, self.seek(position).offset - records)
        found = self.topic.first_from(offset, self.topic.high)
        return position if found is None else min(position, Position.before(found.position.event_id))


class Source:
    """A topic with its shared reader, and the readers that projections have opened for themselves."""

    def __init__(self, topic: SharedTopic, limits: dict[str, int]) -> None:
        self.topic = topic
        self.letters = ListedLetters()
        self.shared_opened = 0
        self.alone: list[str | None] = []
        settings = SharingSettings(**{"failed_s": 0} | limits)
        self.moves: list[None] = []
        self.shared = SharedReader("src", self._open_shared, settings, moved=lambda: self.moves.append(None))
        self.subscriptions: list[Subscription] = []

    def _open(self, **settings: Any) -> TopicReader:
        named: Any = SimpleNamespace(name="topic")
        values = ConsumerSettings(**{"group": "g", "format": "auto"} | settings)
        return TopicReader(BrokerSettings("nowhere:1"), named, values, self.letters)

    def _open_shared(self) -> TopicReader:
        self.shared_opened += 1
        return self._open(batch_events=2)

    def subscribe(
        self, db: str | None, *, wake: Callable[[], None] = lambda: None, **settings: Any
    ) -> Subscription:
        def open_alone() -> TopicReader:
            self.alone.append(db)
            return self._open(**settings)

        interest = Interest(None if db is None else frozenset({db}))
        values = ConsumerSettings(**{"group": "g", "format": "auto"} | settings)
        self.subscriptions.append(Subscription(self.shared, open_alone, values, lambda: interest, wake))
        return self.subscriptions[-1]

    def append(self, first: int, last: int) -> None:
        """Append events; event n is of database ``dbn``."""
        self.topic.append(*records_of(ListedLog(ddl(event_id) for event_id in range(first, last + 1)), first))


@pytest.fixture
def source_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Source]]:
    made: list[Source] = []

    def make(last: int, **limits: int) -> Source:
        topic = SharedTopic()
        monkeypatch.setattr(
            reading_module,
            "Seeker",
            lambda *_: SharedSeeker(topic, offsets_are_ids=topic.offsets_are_ids),
        )
        monkeypatch.setattr(
            reading_module, "Fetcher", lambda _b, _t, offset, _s: SharedFetcher(topic, offset)
        )
        made.append(Source(topic, limits))
        made[-1].append(1, last)
        return made[-1]

    yield make
    for source in made:
        for subscription in source.subscriptions:
            subscription.close()
        assert source.topic.clients == 0, "every client is closed"


def read_until(subscription: Subscription, event_id: int) -> list[int]:
    """Read until the subscription has passed an event; return the ids of the events that it received."""
    received: list[int] = []

    def passed() -> bool:
        batch = subscription.read(READ_S)
        received.extend(each.event_id for each in batch.events)
        return batch.position.event_id >= event_id

    eventually(passed)
    return received


def test_projections_at_the_end_of_the_topic_share_one_reader(source_of: Callable[..., Source]) -> None:
    source = source_of(9)
    one, other, everything = source.subscribe("db8"), source.subscribe("db9"), source.subscribe(None)
    for subscription, position in ((one, 7), (other, 8), (everything, 7)):
        subscription.seek(Position(position))
    assert [read_until(each, 9) for each in (one, other, everything)] == [[8], [9], [8, 9]]
    source.append(10, 11)
    assert [read_until(each, 11) for each in (one, everything)] == [[], [10, 11]]
    assert (source.shared_opened, source.alone, source.topic.clients) == (1, [], 1)


def near_and_behind(source: Source, *positions: int) -> tuple[Subscription, list[Subscription]]:
    """Return one at the end of the topic, and those that are at ``positions``."""
    near = source.subscribe(None)
    end = source.topic.high
    near.seek(Position(end))
    read_until(near, end)
    behind = [source.subscribe(None, batch_events=5) for _ in positions]
    for each, position in zip(behind, positions, strict=True):
        each.seek(Position(position))
    return near, behind


def test_those_that_are_behind_read_together_until_they_are_near(source_of: Callable[..., Source]) -> None:
    source = source_of(40, window_events=10)
    near, behind = near_and_behind(source, 12, 8, 14)
    assert [read_until(each, 40) for each in behind] == [list(range(n + 1, 41)) for n in (12, 8, 14)]
    source.append(41, 41)
    assert [read_until(each, 41) for each in (near, *behind)] == [[41]] * 4
    assert (source.shared_opened, source.alone) == (2, [])
    eventually(lambda: source.topic.clients == 1)


def test_one_that_the_others_have_passed_waits_and_is_woken_for_the_next_run(
    source_of: Callable[..., Source],
) -> None:
    source, woken = source_of(60, window_events=10), threading.Event()
    _, (behind,) = near_and_behind(source, 30)
    later, latest = source.subscribe(None, wake=woken.set), source.subscribe("db1")
    for each, position in ((later, 4), (latest, 0)):
        each.seek(Position(position))
        assert each.wakes
        assert each.read(READ_S).events == ()
    woken.clear()
    assert read_until(behind, 60) == list(range(31, 61))
    eventually(lambda: behind.read(READ_S).caught_up and woken.is_set())
    received: list[list[int]] = [[], []]

    def have_passed() -> bool:
        batches = [each.read(READ_S) for each in (later, latest)]
        for ids, batch in zip(received, batches, strict=True):
            ids.extend(each.event_id for each in batch.events)
        return all(batch.position == Position(60) for batch in batches)

    eventually(have_passed)
    assert received == [list(range(5, 61)), [1]]
    assert source.alone == []


def test_one_that_has_waited_too_long_reads_on_its_own_until_it_is_near_and_closes_its_client_then(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(60, window_events=10, wait_s=0)
    near_and_behind(source, 30)
    later = source.subscribe(None, batch_events=5)
    later.seek(Position(12))
    assert read_until(later, 60) == list(range(13, 61))
    assert source.alone == [None]
    source.append(61, 61)
    assert read_until(later, 61) == [61]
    assert later.is_joined


def test_one_that_ends_while_it_waits_is_forgotten(source_of: Callable[..., Source]) -> None:
    source, woken = source_of(60, window_events=10), threading.Event()
    _, (behind,) = near_and_behind(source, 30)
    later = source.subscribe(None, wake=woken.set)
    later.seek(Position(4))
    later.close()
    read_until(behind, 60)
    behind.close()
    assert not woken.is_set()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_stops_and_continues_receives_each_of_its_events_once(
    source_of: Callable[..., Source], seed: int
) -> None:
    """Projections are slow, stop and continue at random while events are appended."""
    random, end = Random(seed), 40  # noqa: S311 - a test
    source = source_of(end, window_events=8, backlog_events=6, wait_s=random.choice((0, 0.5)))
    dbs = [None, "db3", "db50", None, "db88", None]
    readers = [source.subscribe(db, batch_events=random.randint(1, 9)) for db in dbs]
    received: list[list[int]] = [[] for _ in readers]
    positions = [Position(0)] * len(readers)
    is_open = [False] * len(readers)
    for _ in range(300):
        if end < 120 and random.random() < 0.4:
            source.append(end + 1, end + 3)
            end += 3
        n = random.randrange(len(readers))
        if not is_open[n]:
            readers[n].seek(positions[n])
            is_open[n] = True
        elif random.random() < 0.1:
            readers[n].close()
            is_open[n] = False
        else:
            batch = readers[n].read(0.01)
            received[n] += [each.event_id for each in batch.events]
            positions[n] = batch.position
    for n, reader in enumerate(readers):
        if not is_open[n]:
            reader.seek(positions[n])
        received[n] += read_until(reader, end)
    for db, found in zip(dbs, received, strict=True):  # its own client passes the events of all databases
        concerned = [event_id for event_id in range(1, end + 1) if db in {None, f"db{event_id}"}]
        assert [event_id for event_id in found if event_id in concerned] == concerned
        assert found == sorted(set(found))


def test_one_that_does_not_keep_up_leaves_and_still_receives_every_event_once(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(2, window_events=4, backlog_events=8)
    slow, fast = source.subscribe(None), source.subscribe(None)
    for subscription in (slow, fast):
        subscription.seek(Position(0))
        assert read_until(subscription, 2) == [1, 2]
    received: list[int] = []
    for event_id in range(3, 40):
        source.append(event_id, event_id)
        received += read_until(fast, event_id)
    assert received == list(range(3, 40))
    assert source.alone == []
    assert read_until(slow, 39) == list(range(3, 40))
    assert (source.shared_opened, source.alone) == (2, [])


def test_a_single_projection_that_is_slow_keeps_the_shared_reader_waiting(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(60, backlog_events=8)
    slow = source.subscribe(None, batch_events=3)
    slow.seek(Position(0))
    assert read_until(slow, 60) == list(range(1, 61))


def test_one_that_reads_with_others_is_woken_by_its_own_events_only(
    source_of: Callable[..., Source],
) -> None:
    source, woken = source_of(3), threading.Event()
    concerned, other = source.subscribe("db5", wake=woken.set), source.subscribe("db4")
    for each in (concerned, other):
        each.seek(Position(3))
        assert each.wakes
    source.append(4, 4)
    assert read_until(other, 4) == [4]
    assert not woken.is_set()
    source.append(5, 5)
    assert woken.wait(DEADLINE_S)
    assert [event.event_id for event in concerned.read(READ_S).events] == [5]


def test_one_that_no_event_concerns_is_known_to_have_passed_all_without_reading(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(3)
    other = source.subscribe("db9")
    assert other.find_passed() is None
    other.seek(Position(2))
    eventually(lambda: other.find_passed() is not None)
    moves = len(source.moves)
    source.append(4, 5)
    eventually(lambda: len(source.moves) > moves)
    eventually(lambda: (other.find_passed() or (None,))[0] == Position(5))
    other.close()
    assert other.find_passed() is None


def test_one_that_is_far_ahead_does_not_wait_for_one_that_is_far_behind(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(60, backlog_events=8, ahead_events=20, window_events=8)
    behind, ahead = source.subscribe(None), source.subscribe(None)
    behind.seek(Position(0))
    eventually(lambda: behind.read(READ_S).events)
    ahead.seek(Position(59))
    assert read_until(ahead, 60) == [60]
    assert source.alone == []
    assert read_until(behind, 60)[-1] == 60


def test_the_shared_reader_looks_back_so_that_those_stopped_a_little_earlier_join(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(60, window_events=40)
    later, earlier = source.subscribe(None), source.subscribe(None)
    later.seek(Position(60))
    earlier.seek(Position(45))
    assert read_until(earlier, 60) == list(range(46, 61))
    assert source.alone == []


def test_a_gap_is_reported_to_those_before_it_and_to_nobody_else(source_of: Callable[..., Source]) -> None:
    source = source_of(5)
    before, after = source.subscribe(None), source.subscribe(None)
    before.seek(Position(3))
    assert read_until(before, 5) == [4, 5]
    source.append(8, 12)
    with pytest.raises(GapDetected) as caught:
        read_until(before, 12)
    assert (caught.value.context["expected"], caught.value.context["found"]) == (6, 8)
    before.close()
    after.seek(Position(9))
    assert read_until(after, 12) == [10, 11, 12]
    source.append(13, 13)
    assert read_until(after, 13) == [13]
    eventually(lambda: after.read(READ_S).position == Position(13) and after.is_joined)
    before.seek(Position(5))
    with pytest.raises(GapDetected):
        read_until(before, 12)
    assert after.is_joined
    source.append(14, 14)
    assert read_until(after, 14) == [14]


def test_a_failure_of_the_broker_reaches_all_and_all_read_on_afterwards(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(5)
    readers = [source.subscribe(None), source.subscribe("db7")]
    for reader in readers:
        reader.seek(Position(4))
        read_until(reader, 5)
    source.topic.failure = KafkaUnavailable("no broker answers")
    for reader in readers:
        with pytest.raises(KafkaUnavailable):
            read_until(reader, 9)
        reader.close()
    source.topic.failure = None
    source.append(6, 7)
    for reader, expected in zip(readers, ([6, 7], [7]), strict=True):
        reader.seek(Position(5))
        assert read_until(reader, 7) == expected
    assert source.alone == []


def test_a_record_that_cannot_be_decoded_is_written_to_the_dead_letters_once(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(3)
    readers = [source.subscribe("db1"), source.subscribe("db2")]
    for reader in readers:
        reader.seek(Position(3))
    broken = event(4, "CREATE_TABLE", {"db": "db1"}, db="db1", table="t")
    source.topic.append(*records_of(ListedLog([broken]), 4))
    assert [read_until(reader, 4) for reader in readers] == [[4], []]
    assert [event_id for _, _, event_id in source.letters.put_in] == [4]
    assert [reader.status.dead_letters for reader in readers] == [1, 1]


def test_a_projection_that_needs_event_ids_refuses_a_topic_without_them(
    source_of: Callable[..., Source],
) -> None:
    source = source_of(3)
    source.topic.offsets_are_ids = True
    catalog = source.subscribe(None, needs_event_ids=True)
    catalog.seek(Position(0))
    with pytest.raises(ConfigError, match="no event ids"):
        catalog.read(READ_S)
