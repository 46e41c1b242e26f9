"""A topic loses events of a Hive 3.1 source before the replica has read them: it reads them from the
notification log, and finds the files of the commits itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import configured
from tests.builders.kafka.relay_and_readers import Stream, wait_until
from tests.builders.replication.hive_3_source import (
    ACID,
    INSERT_ONLY,
    Hive3Source,
    Side,
    assert_equal_tables,
    open_hive_3_source,
)


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

TABLES = ("t", "p", "lines")


@pytest.fixture
def old(hive_3: HiveCluster, target: ClusterEndpoints, database: str) -> Iterator[Hive3Source]:
    with open_hive_3_source(hive_3, target, database) as source:
        source.run(
            f"create table {{db}}.t (k int, v string) {ACID}",
            f"create table {{db}}.p (k int, v string) partitioned by (dt string) {ACID}",
            f"create table {{db}}.lines (k int) {INSERT_ONLY}",
            "insert into {db}.t values (1, 'a'), (2, 'b')",
        )
        yield source


def test_commits_that_the_topic_has_lost_are_applied_without_a_load(
    old: Hive3Source, stack: Endpoints, target_sql: Session, topic: str, tmp_path: Path
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=old.db, source=old.cluster.endpoints())
    stream = Stream(stack.kafka, topic)
    daemon.bootstrap()
    with daemon:
        daemon.applied(old.metastore.current_event_id())
    read = (tmp_path / "daemon.log").stat().st_size

    old.run(
        "insert into {db}.p partition (dt) values (1, 'a', 'x'), (2, 'b', 'y')",
        "update {db}.t set v = 'u' where k = 1",
        "insert into {db}.lines values (7)",
        "delete from {db}.p where k = 2",
    )
    lost = old.metastore.current_event_id()
    old.run("insert into {db}.t values (3, 'c')")
    newest = old.metastore.current_event_id()
    daemon.verb = "relay"
    with daemon:
        wait_until(lambda: newest in {each.position.event_id for each in stream.contents()}, "all is relayed")
    stream.truncate(next(each.offset for each in stream.contents() if each.position.event_id > lost))

    daemon.verb = "run"
    with daemon:
        view = daemon.applied(newest)
        assert not view.failures, view.failures
    with closing(Metastore([old.target.metastore])) as target:
        theirs = Side(target, target_sql, f"{old.db}_r")
        assert_equal_tables(Side(old.metastore, old.sql, old.db), theirs, TABLES)
    log = (tmp_path / "daemon.log").read_text()[read:]
    assert "reading them from the notification log" in log
    assert "table loaded" not in log
