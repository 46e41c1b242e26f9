"""The status of compactions on a real metastore, with a worker that takes one and fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from daemon.replica.compaction_watch import CompactionWatch
from daemon.replica.status.compactions import COMPACTIONS
from dev.fixtures.hive_tables import ACID, a_partition, a_table
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from handlers.structs.objects import Database
from tests.builders.metastore.compaction_worker import CompactionWorker


def test_queued_and_failed_compactions_of_a_replica_are_shown_and_those_of_other_databases_are_not(
    target: ClusterEndpoints, database: str
) -> None:
    names = (f"{database}_r", f"{database}_other")
    config = SimpleNamespace(policy=lambda _: SimpleNamespace(replica_database=names[0]))
    watch = CompactionWatch(cast("Any", SimpleNamespace(config=config)), "dr", lambda: ("shop",))
    with CompactionWorker(target.metastore) as client:
        for db in names:
            client.create_database(Database(name=db, ownerName="ann"))
            client.create_table(a_table(db, "orders", parameters=ACID))
            client.create_table(a_table(db, "visits", parameters=ACID, partition_keys=["dt"]))
            client.add_partitions(db, "visits", [a_partition(client.get_table(db, "visits"), "a")])
        watch.read_all(client)
        assert COMPACTIONS.text(watch.status(), 0.0) == ""
        assert client.compact(names[0], "orders").accepted
        while client.fail_next("no <heap>") != (names[0], "orders"):
            pass  # what other tests have queued
        assert client.compact(names[0], "visits", partition_name="dt=a").accepted
        assert client.compact(names[1], "visits", partition_name="dt=a").accepted
        watch.read_all(client)
        (status,) = watch.status()
        assert {state: count for state, count in (status.counts or {}).items() if count} == {
            "failed": 1,
            "initiated": 1,
        }
        assert [(row.table, row.partition, row.state, row.message) for row in status.listed] == [
            (f"{names[0]}.orders", None, "failed", "no <heap>"),
            (f"{names[0]}.visits", "dt=a", "initiated", None),
        ]
        assert status.waiting_s is not None
        (action,) = COMPACTIONS.actions(watch.status())
        assert action.command == "tideline compact shop orders"
        assert "no <heap>" in COMPACTIONS.text(watch.status(), status.read_s or 0.0)


def test_a_target_that_is_down_is_shown_as_such(target: ClusterEndpoints, database: str) -> None:
    config = SimpleNamespace(policy=lambda _: SimpleNamespace(replica_database=f"{database}_r"))
    watch = CompactionWatch(cast("Any", SimpleNamespace(config=config)), "dr", lambda: ("shop",))
    with WritingMetastore(target.metastore) as client:
        watch.read_all(client)
    with WritingMetastore("thrift://127.0.0.1:1", connect_timeout_s=1, timeout_s=1) as nobody:
        watch.read_all(nobody)
    (line,) = COMPACTIONS.problems(watch.status())
    assert "metastore-unavailable" in line
    assert watch.status()[0].counts is not None
