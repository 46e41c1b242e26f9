"""What a source keeps is compared with what its readers still need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.retention.loop import find_readers
from daemon.retention.measurement import Reader, margins
from daemon.retention.status import RETENTION, SourceRetention, describe
from daemon.status.model import DaemonStatus
from state.errors import LimitExceeded
from state.event_log.retention import NEVER, TopicLimits
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import daemon_status
from tests.builders.daemon.retention import SETTINGS, TimedLog, measurement


RELAY = Reader("relay:lake", 7, reads_topic=False)
REPLICA = Reader("replication:shop", 7, copies_files=True)


def left(*readers: Reader, now_s: float = 20.0, **options: object) -> list[tuple[float, float]]:
    """Return the time that is left for events and for files of each reader."""
    measured = measurement(*readers, **options)  # type: ignore[arg-type]  # options of the builder
    return [(events.left_s, files.left_s) for _, events, files in margins(measured, now_s)]


def test_a_relay_has_what_is_left_of_the_notification_log() -> None:
    assert left(RELAY) == [(8 + 100 - 20, NEVER)]


def test_a_replica_also_has_the_topic_and_needs_the_change_manager() -> None:
    assert left(REPLICA) == [(8 + 200 - 20, 8 + 3600 - 20)]
    assert left(REPLICA, topic=TopicLimits(50.0)) == [(8 + 100 - 20, 8 + 3600 - 20)]


def test_an_event_that_is_not_relayed_yet_is_only_in_the_notification_log() -> None:
    assert left(REPLICA, relayed=7) == [(8 + 100 - 20, 8 + 3600 - 20)]


def test_a_reader_that_has_read_everything_has_the_whole_retention_left() -> None:
    done = replace(REPLICA, event_id=10)
    assert left(done) == [(200, 3600)]


def test_the_time_left_shrinks_while_the_source_cannot_be_measured() -> None:
    assert left(REPLICA, now_s=100.0)[0][0] == 8 + 200 - 100
    assert left(REPLICA, now_s=5_000.0) == [(0, 0)]


def test_a_reader_that_had_read_everything_may_miss_events_while_the_source_cannot_be_measured() -> None:
    measured = measurement(Reader("relay:lake", 10, reads_topic=False))
    later_s = measured.time_s + 70
    ((_, events, _),) = margins(measured, later_s)
    assert events.left_s == events.retention_s - 70


def test_an_event_that_the_log_has_lost_counts_from_the_lag_of_its_reader() -> None:
    late = Reader("replication:shop", 2, lag_s=60.0)
    assert left(late, now_s=100.0, log=TimedLog(5, 10)) == [(20 - 60 + 200 - 100, NEVER)]


def test_the_time_to_live_is_that_of_replication_only_with_a_change_manager() -> None:
    without = {**SETTINGS, "hive.repl.cm.enabled": "false"}
    assert left(RELAY, log=TimedLog(5, 10, without)) == [(8 + 50 - 20, NEVER)]


def test_a_metastore_that_reveals_no_settings_is_judged_by_its_oldest_event() -> None:
    assert left(RELAY, log=TimedLog(5, 10, {})) == [(8 + (20 - 5) - 20, NEVER)]
    assert left(RELAY, log=TimedLog(1, 10, {})) == [(NEVER, NEVER)]


def test_an_event_that_is_too_large_to_be_read_counts_from_the_lag() -> None:
    class Large(TimedLog):
        def next_events(self, after: int, limit: int) -> list[object]:  # type: ignore[override]
            raise LimitExceeded("too large", after=after, limit=limit)

    assert left(replace(RELAY, lag_s=3.0), log=Large(5, 10)) == [(20 - 3 + 100 - 20, NEVER)]


COMPACTING = {**SETTINGS, "hive.compactor.initiator.on": "true", "hive.compactor.check.interval": "30s"}
LISTING = replace(RELAY, lists_writes=True)


def test_a_relay_that_lists_directories_has_until_the_next_compaction() -> None:
    assert left(LISTING, log=TimedLog(5, 10, COMPACTING)) == [(8 + 100 - 20, 8 + 30 - 20)]
    assert left(RELAY, log=TimedLog(5, 10, COMPACTING)) == [(8 + 100 - 20, NEVER)]
    without = {**COMPACTING, "hive.compactor.initiator.on": "false"}
    assert left(LISTING, log=TimedLog(5, 10, without)) == [(8 + 100 - 20, NEVER)]
    assert left(LISTING) == [(8 + 100 - 20, NEVER)], "the metastore does not reveal the interval"


def test_a_relay_that_lists_directories_too_late_needs_an_operator_but_is_ready() -> None:
    late = (describe(measurement(LISTING, log=TimedLog(5, 10, COMPACTING)), 37.0),)
    (action,) = RETENTION.actions(late)
    assert (action.kind, action.object) == ("retention", "relay:lake")
    assert action.reason.startswith("directories of transactions that it has not read are kept for 30 s")
    assert RETENTION.unready_reasons(late) == []
    assert RETENTION.text(late, 37.0).splitlines()[1].split()[-4:] == ["30", "s", "1", "s"]
    samples = {sample.name: sample.value for family in RETENTION.families(late) for sample in family.samples}
    assert samples["tideline_directories_left_seconds"] == 1
    assert samples["tideline_directories_retention_seconds"] == 30
    assert "tideline_files_left_seconds" not in samples, "its alert is about the change manager"


def test_readers_are_the_relay_and_the_projections_of_the_source_with_a_position() -> None:
    readers = {reader.name: reader for reader in find_readers(daemon_status(), "lake")}
    assert list(readers) == ["relay:lake", "replication:shop", "replication:hr"]
    assert not readers["relay:lake"].reads_topic
    assert not readers["relay:lake"].lists_writes
    assert readers["replication:shop"].copies_files
    assert not readers["replication:hr"].copies_files, "it has no target"
    assert list(find_readers(daemon_status(), "pond")) == [], "another daemon relays it"


@pytest.fixture
def short() -> tuple[SourceRetention, ...]:
    """A relay with 28 of 100 seconds left, and a replica with 128 of 200 seconds."""
    return (describe(measurement(RELAY, REPLICA), 80.0),)


def test_an_operator_is_needed_when_less_than_half_of_a_retention_is_left(
    short: tuple[SourceRetention, ...],
) -> None:
    (action,) = RETENTION.actions(short)
    assert (action.kind, action.object) == ("retention", "relay:lake")
    assert "events that it has not read are kept for 1 min 40 s" in action.reason
    assert "in 28 s" in action.reason
    assert RETENTION.unready_reasons(short) == []


def test_the_daemon_is_not_ready_when_less_than_a_tenth_is_left() -> None:
    late = (describe(measurement(RELAY), 100.0),)
    assert RETENTION.unready_reasons(late) == [
        "relay:lake: events that it has not read may be removed in 8 s"
    ]
    status = daemon_status(sections={"retention": late}, projections=())
    assert any("may be removed" in reason for reason in status.unready_reasons(300, SECTIONS))


def test_status_text_shows_a_row_for_each_reader(short: tuple[SourceRetention, ...]) -> None:
    lines = RETENTION.text(short, 80.0).splitlines()
    assert lines[0].split()[:2] == ["RETENTION", "SOURCE"]
    assert [line.split()[0] for line in lines[1:]] == ["relay:lake", "replication:shop"]


def test_the_section_reads_back_from_json(short: tuple[SourceRetention, ...]) -> None:
    status = daemon_status(sections={"retention": short})
    assert RETENTION.of(DaemonStatus.from_json(status.to_json(), SECTIONS)) == short


def test_metrics_have_the_time_left_and_no_sample_for_what_has_no_limit(
    short: tuple[SourceRetention, ...],
) -> None:
    samples = {
        (sample.name, sample.labels.get("reader", "")): sample.value
        for family in RETENTION.families(short)
        for sample in family.samples
    }
    assert samples["tideline_gap_left_seconds", "relay:lake"] == 28
    assert samples["tideline_gap_retention_seconds", "relay:lake"] == 100
    assert samples["tideline_source_oldest_event_id", ""] == 5
    assert samples["tideline_source_log_retention_seconds", ""] == 100
    assert ("tideline_files_left_seconds", "relay:lake") not in samples
