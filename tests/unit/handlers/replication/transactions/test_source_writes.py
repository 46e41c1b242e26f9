"""Commits that came without their write events: the files are fetched from the source, or the tables are
quarantined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handlers.events import SourceFile
from handlers.replication.transactions.target_write_ids import OpeningMarks
from handlers.replication.transactions.transaction_replay import TransactionReplay
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from state.errors import MetastoreUnavailable, ServerFault, Unsupported
from tests.builders.replication.fake_target import FakedReplica, a_dispatcher
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import allocated, committed, created, written


def info(file: SourceFile, database: str = "shop") -> WriteEventInfo:
    return WriteEventInfo(
        writeId=1,
        database=database,
        table="orders",
        files=f"{file.uri}#{file.checksum}##{file.subdir}",
    )


def replay_between(replica: FakedReplica, writes: Any, *, oldest: int = 2) -> TransactionReplay:
    """Return the replay with a source that answers ``writes``; its log begins at event ``oldest``."""
    log = NotificationEvent(eventId=oldest, eventTime=0, eventType="ALLOC_WRITE_ID_EVENT", message="{}")
    source: Any = RecordingMetastore({"write_events": writes, "next_events": [log]})
    return a_dispatcher(replace(replica.context, source=source)).transactions


def test_a_commit_that_is_not_enriched_gets_its_files_from_the_source(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    file = replica.file()
    replay_between(replica, [info(file), info(file, "other")]).commit(committed(3, enriched=False))
    assert replica.files_on_target() == [f"orders/{file.subdir}/bucket_00000_0"]
    ((_, (sent,)),) = replica.target.commits
    assert (sent.database, sent.table, sent.writeId) == ("shop_r", "orders", 1)
    assert replica.context.tables.quarantine.entries() == ()


def test_an_enriched_commit_does_not_ask_the_source(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replay_between(replica, AssertionError("asked")).commit(committed(3))
    assert len(replica.target.commits) == 1


def test_files_that_the_topic_named_are_not_copied_twice(replica: FakedReplica) -> None:
    one, two = replica.file("bucket_00000_0"), replica.file("bucket_00001_0")
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    entry = f"{one.uri}#{one.checksum}##{one.subdir}"
    both = info(one)
    both.files = f"{entry}]{two.uri}#{two.checksum}##{two.subdir}"
    replay = replay_between(replica, [both])
    replay.start_copies(replace(written(3, one), raw_files=(entry,)))
    replay.commit(committed(3, enriched=False))
    ((_, (sent,)),) = replica.target.commits
    assert sent.files == both.files


def test_tables_are_quarantined_if_the_source_does_not_report_write_events(replica: FakedReplica) -> None:
    replica.projection.apply(
        [created(1), allocated(2, 1, 1), created(3, "lines"), allocated(4, 2, 1, "lines")]
    )
    replay_between(replica, Unsupported("no such call")).commit(committed(5, enriched=False))
    (entry,) = replica.context.tables.quarantine.entries()
    assert (entry.table, entry.event_id, entry.code) == ("orders", 5, "unsupported")
    assert "did not list its files" in entry.reason
    assert [(txn, writes) for txn, writes in replica.target.commits] == [(1, [])]


def test_tables_are_quarantined_if_the_source_may_have_purged_the_write_events(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replay_between(replica, [], oldest=7).commit(committed(8, enriched=False))
    assert [entry.code for entry in replica.context.tables.quarantine.entries()] == ["file-lost"]


def test_a_transaction_without_writes_quarantines_nothing_while_the_log_reaches_back_to_it(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replay_between(replica, []).commit(committed(3, enriched=False))
    assert replica.context.tables.quarantine.entries() == ()
    assert replica.target.commits == [(1, [])]


def test_an_internal_error_of_the_source_is_retried_and_never_a_failure_of_a_table(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    with pytest.raises(MetastoreUnavailable):
        replay_between(replica, ServerFault("database is down")).commit(committed(3, enriched=False))
    assert replica.target.commits == []


def test_a_commit_whose_tables_nobody_knows_stops_the_policy_instead_of_showing_nothing(
    replica: FakedReplica,
) -> None:
    replay = replay_between(replica, Unsupported("no such call"))
    replay.resume(OpeningMarks(unknown_txn_id=1))
    with pytest.raises(Unsupported):
        replay.commit(committed(3, enriched=False))
    assert replica.target.commits == []


def test_a_commit_that_the_target_never_accepts_quarantines_its_tables_even_without_write_events(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replay = replay_between(replica, [])
    replay.commit_without_files(committed(3, enriched=False), ServerFault("internal error"))
    assert [entry.table for entry in replica.context.tables.quarantine.entries()] == ["orders"]
