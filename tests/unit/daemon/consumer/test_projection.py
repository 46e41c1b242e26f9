"""The loop drives a projection from its own position, reports its status, and raises every failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from daemon.consumer.event_reader import Batch, EventReader, Passage, Stages
from daemon.consumer.metrics import ProjectionMetrics
from daemon.consumer.projection import WAIT_S, Projection, ProjectionLoop, ProjectionStatus, follow
from daemon.consumer.settings import ReaderStatus
from daemon.consumer.topic_reader import TopicReader
from daemon.process.metrics import LoopMetrics
from handlers.events import Event
from state.errors import ConfigError, GapDetected, Inconsistent, Interrupted, MetastoreUnavailable
from state.event_log.positions import Position
from tests.builders.kafka.fake_log import Line, ListedLog, ddl
from tests.builders.kafka.fake_topics import ListedTopic, records_of
from tests.builders.kafka.relay_and_readers import Collecting, run_in_turns
from tests.unit.daemon.consumer.conftest import ReaderOf


def run(projection: Projection, reader: EventReader, line: Line, *arguments: Any) -> None:
    run_in_turns(follow(projection, reader, line, *arguments), line.stopping)


def topic_of(last: int) -> ListedTopic:
    return ListedTopic(records_of(ListedLog(ddl(event_id) for event_id in range(1, last + 1))))


def test_the_loop_starts_at_the_position_of_the_projection_and_reports_every_iteration(
    reader_of: ReaderOf,
) -> None:
    projection, reports = Collecting(Position(3)), list[ProjectionStatus]()
    line = Line(until=lambda: projection.settled > 0)
    run(projection, reader_of(topic_of(9), batch_events=2), line, reports.append)
    assert [event.event_id for event in projection.events] == [4, 5, 6, 7, 8, 9]
    assert [status.state for status in reports] == ["starting", *["following"] * 5, "stopped"]
    assert reports[-1].position == Position(9)
    assert reports[-1].applied_time_s == 1_700_000_009
    assert (line.followed, line.progresses) == (1, 3)


def test_a_stop_is_seen_before_the_next_batch(reader_of: ReaderOf) -> None:
    projection = Collecting()
    line = Line(until=lambda: len(projection.events) >= 4)
    run(projection, reader_of(topic_of(9), batch_events=2), line, lambda _status: None)
    assert len(projection.events) == 4


class _Resting(Collecting):
    """Rests until the stop, as a policy that is paused or was retired."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self.line = line

    def hold(self) -> Iterator[float]:
        yield 0.0
        self.line.stopping.set()


def test_a_projection_that_rests_until_the_stop_receives_no_events(reader_of: ReaderOf) -> None:
    line = Line()
    projection = _Resting(line)
    run(projection, reader_of(topic_of(9)), line, lambda _status: None)
    assert projection.events == []


class _Failing(Collecting):
    def apply(self, events: Sequence[Event]) -> Position:  # type: ignore[override]
        raise MetastoreUnavailable("the target is away", events=len(events))


def test_a_failure_of_the_projection_ends_the_loop_and_closes_the_reader(reader_of: ReaderOf) -> None:
    reader = reader_of(topic_of(9))
    with pytest.raises(MetastoreUnavailable):
        run(_Failing(), reader, Line(), lambda _status: None)
    assert reader._fetcher is None


class _Closed(Collecting):
    def open(self) -> Position:
        raise MetastoreUnavailable("the target is away")


def test_position_and_quarantine_are_reported_while_the_projection_cannot_be_opened(
    reader_of: ReaderOf,
) -> None:
    last = ProjectionStatus(
        "collecting", "lake", "following", Position(7), 60, ["a.b"], problem="old", paused_since_s=5
    )
    reports = list[ProjectionStatus]()
    with pytest.raises(MetastoreUnavailable):
        run(_Closed(), reader_of(topic_of(9)), Line(), reports.append, last)
    assert reports == [ProjectionStatus("collecting", "lake", "starting", Position(7), 60, ["a.b"])]


@pytest.mark.parametrize(("position", "time_s"), [(7, 60), (9, None)])
def test_the_time_of_the_last_event_is_reported_until_the_position_changes(
    position: int, time_s: int | None, reader_of: ReaderOf
) -> None:
    last, reports = (
        ProjectionStatus("collecting", "lake", "following", Position(7), 60),
        list[ProjectionStatus](),
    )
    line = Line(until=lambda: len(reports) > 1)
    run(Collecting(Position(position)), reader_of(topic_of(9)), line, reports.append, last)
    assert reports[1].applied_time_s == time_s


class _WithoutPosition(Collecting):
    def open(self) -> Position:
        raise ConfigError("bootstrap the policy first")


def test_a_projection_without_a_position_receives_no_events(reader_of: ReaderOf) -> None:
    line = Line()
    with pytest.raises(ConfigError):
        run(_WithoutPosition(), reader_of(topic_of(9)), line, lambda _status: None)
    assert line.followed == 0


class _Omitting(Collecting):
    def apply(self, events: Sequence[Event]) -> Position:  # type: ignore[override]
        return super().apply(events[:-1])


def test_a_projection_that_silently_omits_events_is_stopped(reader_of: ReaderOf) -> None:
    with pytest.raises(Inconsistent) as caught:
        run(_Omitting(), reader_of(topic_of(9)), Line(), lambda _status: None)
    assert caught.value.context == {"projection": "p", "position": "8", "given": "9"}


class _Served(Collecting):
    """Fails the first batch, and counts how often it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.failures_left = 1
        self.closed = 0

    def apply(self, events: Iterable[Event]) -> Position:
        if self.failures_left:
            self.failures_left -= 1
            raise MetastoreUnavailable("the target is away")
        return super().apply(events)

    def serve_failed(self) -> bool:
        return False

    def close(self) -> None:
        self.closed += 1


def projection_metrics(registry: CollectorRegistry | None = None) -> ProjectionMetrics:
    registry = registry or CollectorRegistry()
    return ProjectionMetrics(registry, LoopMetrics(registry))


def loop_of(
    projection: _Served, reader_of: ReaderOf, registry: CollectorRegistry | None = None
) -> ProjectionLoop:
    metrics = projection_metrics(registry)
    return ProjectionLoop(projection, lambda: reader_of(topic_of(9)), metrics, position=Position(0))


def test_buckets_of_the_delay_name_the_last_event_in_them(reader_of: ReaderOf) -> None:
    projection, registry = _Served(), CollectorRegistry()
    projection.failures_left = 0
    loop = loop_of(projection, reader_of, registry)
    list(loop.run(Line(until=lambda: projection.settled > 0)))
    (family,) = (each for each in registry.collect() if each.name == "tideline_commit_to_visible_seconds")
    named = {sample.exemplar.labels["event_id"] for sample in family.samples if sample.exemplar}
    assert named == {"9"}


def test_a_restarted_loop_continues_with_its_projection_until_a_stop_is_requested(
    reader_of: ReaderOf,
) -> None:
    projection = _Served()
    loop = loop_of(projection, reader_of)
    with pytest.raises(MetastoreUnavailable):
        list(loop.run(Line()))
    assert (loop.is_following, projection.closed) == (False, 0)
    list(loop.run(Line(until=lambda: len(projection.events) >= 9)))
    assert (loop.status.state, loop.status.position, projection.closed) == ("stopped", Position(9), 1)


class _Joined:
    """A reader that has no events of the projection."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.passed: tuple[Position, int] | None = None
        self.status = ReaderStatus("t")
        self.wakes = True

    def find_passed(self) -> tuple[Position, int] | None:
        return self.passed

    def seek(self, position: Position) -> None:
        assert position == Position(3)

    def read(self, timeout_s: float) -> Batch:
        self.waits.append(timeout_s)
        return Batch((), Position(3), caught_up=True)

    def acknowledge(self, position: Position) -> None:
        raise AssertionError(position)

    def close(self) -> None:
        self.passed = None


class _Quiet(_Served):
    """Rests longer each time."""

    def settle(self) -> float:
        return super().settle() * float(4**self.settled)


def test_a_projection_rests_as_long_as_it_says_while_nothing_concerns_it() -> None:
    projection, reader = _Quiet(), _Joined()
    projection.position = Position(3)
    line = Line(until=lambda: projection.settled >= 3)
    assert list(follow(projection, reader, line, lambda _status: None)) == [2.0, 8.0, 32.0]
    assert reader.waits == [WAIT_S] * 3


class _Arrived(_Joined):
    """Has one event."""

    def read(self, timeout_s: float) -> Batch:
        if self.waits:
            return super().read(timeout_s)
        self.waits.append(timeout_s)
        return Batch((Event(event_id=4, time_s=40, kind="CREATE_TABLE"),), Position(4), caught_up=True)

    def acknowledge(self, position: Position) -> None:
        assert position == Position(4)


def test_events_are_reported_before_the_rest_that_follows_them() -> None:
    projection, reader, reports = _Quiet(), _Arrived(), list[ProjectionStatus]()
    projection.position, projection.failures_left = Position(3), 0
    rests = follow(projection, reader, Line(), reports.append)
    assert (next(rests), reports[-1].position) == (WAIT_S, Position(4))


def test_the_status_says_up_to_where_the_events_concern_others_only() -> None:
    projection, reader = _Quiet(), _Joined()
    projection.position = Position(3)
    loop = ProjectionLoop(projection, lambda: reader, projection_metrics(), position=Position(3))
    line = Line()
    rests = loop.run(line)
    next(rests)
    reader.passed = Position(7), 70
    status = loop.read_status()
    assert (status.position, status.applied_time_s) == (Position(7), 70)
    reader.passed = Position(2), 20
    assert loop.read_status() is loop.status
    reader.passed = Position(7), 70
    loop.status = replace(loop.status, state="paused")
    assert loop.read_status().position == Position(3)
    line.stopping.set()
    list(rests)
    assert projection.position == Position(7), "it need not read them again after a restart"


def test_lost_events_end_the_loop_unless_the_projection_can_continue_without_them(
    reader_of: ReaderOf,
) -> None:
    def lose() -> TopicReader:
        raise GapDetected("events are missing", expected=5, found=8)

    metrics, gaps = projection_metrics(), list[GapDetected]()

    def cross(gap: GapDetected) -> Interrupted:
        gaps.append(gap)
        return Interrupted("everything is loaded again")

    with pytest.raises(GapDetected):
        list(ProjectionLoop(_Served(), lose, metrics, position=None).run(Line()))
    with pytest.raises(Interrupted):
        list(ProjectionLoop(_Served(), lose, metrics, position=None, cross_gap=cross).run(Line()))
    assert [gap.context["found"] for gap in gaps] == [8]


def test_the_time_of_the_last_event_is_divided_into_stages(reader_of: ReaderOf) -> None:
    topic, metrics = topic_of(9), projection_metrics()
    topic.time_ms = 1_700_000_012_500
    projection = _Served()
    projection.failures_left, projection.position = 0, Position(3)
    loop = ProjectionLoop(projection, lambda: reader_of(topic, batch_events=2), metrics, position=None)
    run_in_turns(loop.run(line := Line(until=lambda: projection.settled > 0)), line.stopping)
    stages = loop.status.stages
    assert stages is not None
    assert stages.relay_s == 3.5  # from the second of event 9
    assert stages.total_s >= stages.relay_s + stages.read_s
    (family,) = metrics.stage_s.collect()
    counts = {row.labels["stage"]: row.value for row in family.samples if row.name.endswith("_count")}
    assert counts == {"relay": 3, "read": 3, "queue": 3, "apply": 3}


def test_stages_are_never_negative_and_not_known_of_events_from_the_log() -> None:
    event, position = Event(event_id=9, time_s=1_700_000_000, kind="CREATE_TABLE"), Position(9)
    known = Batch((event,), position, caught_up=True, passage=Passage(event.time_s - 5.0, event.time_s + 1.0))
    stages = Stages.of(known, event.time_s + 1.5, event.time_s + 4.0)
    assert stages == Stages(relay_s=0.0, read_s=6.0, queue_s=0.5, apply_s=2.5)
    assert Stages.of(Batch((event,), position, caught_up=True), 1.0, 2.0) is None
