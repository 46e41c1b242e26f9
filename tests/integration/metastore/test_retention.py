"""A real metastore reports how long it keeps events and deleted files, and how old the next event of a reader
is."""

from __future__ import annotations

import time
from contextlib import closing

from daemon.retention.measurement import Reader, margins, measure
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from state.event_log.retention import TopicLimits


DAY_S = 86_400.0


def test_the_time_left_is_counted_from_the_next_event_with_the_settings_of_the_server(
    source: ClusterEndpoints, source_sql: Session, database: str
) -> None:
    before_s = int(time.time())
    source_sql.run(f"create database {database}")
    with closing(Metastore([source.metastore])) as metastore:
        newest = metastore.current_event_id()
        (created,) = metastore.next_events(newest - 1, 1)
        readers = [
            Reader("relay:lake", newest - 1, reads_topic=False),
            Reader("replication:shop", newest - 1, copies_files=True),
            Reader("replication:done", newest + 1_000_000, copies_files=True),
        ]
        now_s = time.time()
        measured = measure(metastore, "lake", TopicLimits(7 * DAY_S), readers, newest, now_s)
    assert measured.oldest_event_id == 1, "nothing was cleaned yet"
    assert (measured.log_s, measured.files_s) == (10 * DAY_S, 10 * DAY_S), "Hive's own, with a change manager"
    assert before_s <= created.eventTime <= now_s + 1
    margin = min(10 * DAY_S, created.eventTime + 10 * DAY_S - now_s)
    found = [(events.left_s, files.left_s) for _, events, files in margins(measured, now_s)]
    assert found[:2] == [(margin, float("inf")), (margin, margin)]
    assert found[2] == (10 * DAY_S, 10 * DAY_S)
