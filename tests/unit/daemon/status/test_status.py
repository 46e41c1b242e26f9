"""The daemon's status: built, printed, and read from JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace

import pytest

from daemon.consumer.projection import ProjectionStatus
from daemon.process.loops.loop import Job
from daemon.process.loops.supervisor import Supervisor
from daemon.status.model import ENDED, DaemonStatus, ProjectionView, SourceStatus
from daemon.status.report.text import status_text
from daemon.status.reporter import ProjectionPart, SourcePart, StatusReporter
from daemon.terminal.layout import bytes_text, duration_text, id_text, number_text
from handlers.failures import TableFailure
from state.errors import GapDetected, MalformedEvent
from state.event_log.positions import Position
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import Scripted, daemon_status, eventually, supervise


GOLDEN = """\
Tideline 1.2.3: running, pid 42 on box, up 3 h 5 min

PROBLEMS
replication:hr: [gap] events are missing
replication:hr: hr.pay was quarantined at event 88 on 1970-01-12 13:46:40 UTC:
    [file-lost] gone
  to follow the table again: bootstrap hr.pay

SOURCE    EVENT  IN TOPIC  BEHIND  FOR  RELAY
lake    1234567   1234560       7  2 s  following
pond         88         -       -    -  elsewhere

PROJECTION        SOURCE  STATE      POSITION     BEHIND  LAG  QUARANTINED
replication:shop  lake    following   1234560          7  2 s            -
replication:hr    lake    failed       90.1/3  1,234,478    -            1

COPIES  FILES    BYTES  WAITING  FALLBACKS  MISMATCHES
shop    1,200  3.0 GiB        4          1           0"""


def test_the_text_is_aligned_and_begins_with_the_problems() -> None:
    assert status_text(daemon_status(), SECTIONS) == GOLDEN


def test_the_last_status_of_a_stopped_daemon_is_shown_with_its_time() -> None:
    first = status_text(daemon_status(state="stopped"), SECTIONS).splitlines()[0]
    assert first == "Tideline 1.2.3: not running; last known at 1970-01-12 16:51:40 UTC"


def test_a_daemon_without_anything_to_do_is_one_line() -> None:
    assert (
        len(
            status_text(
                daemon_status(sources=(), projections=(), sections={"copies": ()}), SECTIONS
            ).splitlines()
        )
        == 1
    )


def test_tables_that_are_being_loaded_are_shown_and_survive_json() -> None:
    view = ProjectionView("catalog:lake", "lake", "following", loading=("shop.t, 500 of 2000 partitions",))
    status = DaemonStatus.from_json(daemon_status(projections=(view,)).to_json(), SECTIONS)
    assert status_text(status, SECTIONS).endswith("LOADING\ncatalog:lake: shop.t, 500 of 2000 partitions")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273600, "3 d 4 h"),
        (-3, "0 s"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")]
)
def test_sizes_have_binary_units(size_bytes: int, text: str) -> None:
    assert bytes_text(size_bytes) == text


def test_unknown_numbers_are_a_dash() -> None:
    assert (number_text(None), number_text(1234567)) == ("-", "1,234,567")
    assert (id_text(None), id_text(1234567)) == ("-", "1234567")


def test_the_json_form_reads_back_equal_also_with_fields_of_a_newer_version() -> None:
    status = daemon_status(stuck=("relay:lake",))
    value = status.to_json()
    value["invented_later"] = 1
    value["projections"][0]["invented_later"] = 1
    assert DaemonStatus.from_json(value, SECTIONS) == status


@pytest.mark.parametrize(
    "value", [None, [], {}, {"version": "1"}, {"sources": [1]}, {"sources": [{}]}, {"stuck": 1}]
)
def test_values_that_are_not_a_status_are_refused(value: object) -> None:
    with pytest.raises(MalformedEvent):
        DaemonStatus.from_json(value, SECTIONS)


def test_a_daemon_is_ready_when_all_projections_follow_within_the_lag() -> None:
    following = daemon_status().projections[0]
    status = daemon_status(projections=(following,))
    assert status.unready_reasons(10, SECTIONS) == []
    assert status.unready_reasons(1, SECTIONS) == ["lake lags by 2 s", "replication:shop lags by 2 s"]
    assert daemon_status().unready_reasons(10, SECTIONS) == ["replication:hr is failed"]
    relay = replace(status.sources[0], relay_state="backing-off", lag_s=40.0)
    assert replace(status, sources=(relay,)).unready_reasons(10, SECTIONS) == [
        "the relay of lake is backing-off",
        "lake lags by 40 s",
    ]
    assert replace(status, state="stopping").unready_reasons(10, SECTIONS) == ["the daemon is stopping"]


@dataclass
class Line:
    """One source and one projection whose statuses a test sets."""

    own: ProjectionStatus
    newest: int | None
    supervisor: Supervisor
    read_ago_s: float | None = 0.0
    """How long ago the newest event was read; None if it never was."""
    reporter: StatusReporter = field(init=False)

    def relay(self) -> SourceStatus:
        """Return the status of the relay."""
        read_s = None if self.read_ago_s is None else time.time() - self.read_ago_s
        return SourceStatus("lake", current_event_id=self.newest, relayed_event_id=90, read_s=read_s)


def line(
    loop: Scripted, *, position: Position | None, newest: int | None, applied_time_s: int | None
) -> Line:
    own = ProjectionStatus("replication:shop", "lake", "following", position, applied_time_s)
    supervisor, _ = supervise(Job("relay:lake", Scripted(None).run), Job("replication:shop", loop.run))
    made = Line(own, newest, supervisor)
    made.reporter = StatusReporter(
        supervisor,
        [SourcePart("lake", "relay:lake", relays=True, status=made.relay)],
        [ProjectionPart("replication:shop", "lake", status=lambda: made.own)],
    )
    return made


def test_lag_is_the_distance_to_the_sources_newest_event() -> None:
    loop = Scripted(None)
    made = line(loop, position=Position(89, 1, 3), newest=100, applied_time_s=0)
    made.supervisor.start()
    assert loop.running.wait(10)
    status = made.reporter.status()
    made.supervisor.stop(5)
    (view,) = status.projections
    assert (view.event_id, view.position, view.lag_events) == (88, "89.1/3", 12)
    assert view.lag_s is not None
    assert view.lag_s > 1_000_000
    assert status.sources[0].lag_events == 10


def test_a_projection_at_the_newest_event_has_no_lag_however_old_that_event_is() -> None:
    view = (
        line(Scripted(None), position=Position(100), newest=100, applied_time_s=0)
        .reporter.status()
        .projections[0]
    )
    assert (view.lag_events, view.lag_s) == (0, 0.0)


def test_the_first_event_after_a_quiet_night_is_not_a_lag_of_hours() -> None:
    made = line(Scripted(None), position=Position(100), newest=100, applied_time_s=0)
    assert made.reporter.status().projections[0].lag_s == 0.0
    made.newest = 101
    lag_s = made.reporter.status().projections[0].lag_s
    assert lag_s is not None
    assert lag_s < 60


def test_a_projection_that_has_applied_nothing_since_the_start_is_behind_since_the_start() -> None:
    made = line(Scripted(None), position=Position(100), newest=101, applied_time_s=None)
    made.reporter._started_s -= 3600
    assert made.reporter.status().projections[0].lag_s == pytest.approx(3600, abs=60)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_a_policy_that_has_ended_is_not_behind_and_the_daemon_is_ready(state: str) -> None:
    made = line(Scripted(None), position=Position(100), newest=101, applied_time_s=0)
    failure = TableFailure("shop.orders", 7, 0, "file-lost", "gone")
    made.own = replace(made.own, state=state, quarantined=("shop.orders",), failures=(failure,))
    status = made.reporter.status()
    (view,) = status.projections
    assert (view.lag_s, view.lag_events, view.quarantined, view.failures) == (None, None, (), ())
    assert status.needs_operator == ()
    assert not [reason for reason in status.unready_reasons(30, ()) if state in reason]


def test_nothing_looks_caught_up_while_the_source_cannot_be_read() -> None:
    """The newest event that is known is applied, but there may be newer ones."""
    made = line(Scripted(None), position=Position(90), newest=90, applied_time_s=0)
    caught_up = made.reporter.status()
    assert (caught_up.sources[0].lag_s, caught_up.projections[0].lag_s) == (0.0, 0.0)
    assert caught_up.newest_event_id("lake") == 90
    made.read_ago_s, made.reporter.state = 120.0, "running"
    unread = made.reporter.status()
    assert unread.sources[0].lag_s == pytest.approx(120, abs=60)
    assert unread.projections[0].lag_s == pytest.approx(120, abs=60)
    assert unread.newest_event_id("lake") is None
    assert unread.unready_reasons(30, ())[-2:] == [
        f"{name} lags by {duration_text(row.lag_s)}"
        for name, row in (("lake", unread.sources[0]), ("replication:shop", unread.projections[0]))
    ]
    made.read_ago_s = 0.0
    assert made.reporter.status().projections[0].lag_s == 0.0


def test_a_source_that_was_never_read_is_unread_since_the_start() -> None:
    made = line(Scripted(None), position=Position(90), newest=None, applied_time_s=0)
    made.read_ago_s = None
    made.reporter._started_s -= 3600
    status = made.reporter.status()
    assert status.sources[0].lag_s == pytest.approx(3600, abs=60)
    assert status.projections[0].lag_s == pytest.approx(3600, abs=60)


def test_the_json_of_a_source_has_no_event_time() -> None:
    source = SourceStatus("lake", relayed_event_id=90, relayed_time_s=1_700_000_000)
    (row,) = daemon_status(sources=(source,)).to_json()["sources"]
    assert set(row) == {each.name for each in fields(source)} - {"relayed_time_s"}


def test_a_source_that_another_daemon_relays_is_behind_only_while_it_cannot_be_read() -> None:
    made = line(Scripted(None), position=Position(90), newest=90, applied_time_s=0)
    made.reporter._sources = [
        SourcePart(
            "lake", "relay:lake", relays=False, status=lambda: replace(made.relay(), relayed_event_id=None)
        )
    ]
    made.reporter._started_s -= 3600
    assert made.reporter.status().sources[0].lag_s is None
    made.read_ago_s = 120.0
    assert made.reporter.status().sources[0].lag_s == pytest.approx(120, abs=60)


def test_a_projection_that_is_started_later_is_in_the_status_from_then_on() -> None:
    own = ProjectionStatus("replication:all.sales", "lake", "following", Position(7), 0)
    found: list[ProjectionPart] = []
    supervisor, _ = supervise(Job("databases:all", Scripted(None).run))
    reporter = StatusReporter(supervisor, [], [], later=[lambda: found])
    assert reporter.status().projections == ()
    supervisor.add(Job("replication:all.sales", Scripted(None).run))
    found.append(ProjectionPart("replication:all.sales", "lake", status=lambda: own))
    assert [(view.name, view.event_id) for view in reporter.status().projections] == [
        ("replication:all.sales", 7)
    ]


def test_unknown_values_are_none() -> None:
    view = (
        line(Scripted(None), position=None, newest=None, applied_time_s=None).reporter.status().projections[0]
    )
    assert (view.position, view.lag_events, view.lag_s) == (None, None, None)


def test_a_failure_is_shown_with_its_code_and_the_last_position() -> None:
    made = line(Scripted(GapDetected("gone", first=3)), position=Position(2), newest=9, applied_time_s=None)
    made.supervisor.start()
    eventually(lambda: made.reporter.status().projections[0].state == "failed")
    made.supervisor.stop(5)
    (view,) = made.reporter.status().projections
    assert (view.code, view.event_id, view.lag_events) == ("gap", 2, 7)
    assert view.problem is not None
    assert "gone" in view.problem
