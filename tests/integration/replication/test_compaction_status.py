"""The status of compactions on a real metastore, with a worker that takes one and fails."""

from __future__ import annotations

from types import NoneType, SimpleNamespace
from typing import Annotated, Any, cast

from daemon.replica.compaction_watch import CompactionWatch
from daemon.replica.status.compactions import COMPACTIONS
from dev.fixtures.hive_tables import ACID, a_partition, a_table
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.calls import DECLARED, V4_0, Call
from handlers.structs.exceptions import MetaException
from handlers.structs.objects import Database
from handlers.structs.struct import Struct, i32, i64, resolve
from handlers.structs.transactions import CompactionType


class CompactionInfoStruct(Struct):
    """A compaction as a worker takes it."""

    id: Annotated[i64, 1]
    dbname: Annotated[str, 2]
    tablename: Annotated[str, 3]
    partitionname: Annotated[str | None, 4] = None
    type: Annotated[i32, 5, CompactionType]
    state: Annotated[str | None, 9] = None
    workerId: Annotated[str | None, 10] = None  # noqa: N815 - Hive's name
    start: Annotated[i64 | None, 11] = None
    highestWriteId: Annotated[i64 | None, 12] = None  # noqa: N815
    errorMessage: Annotated[str | None, 13] = None  # noqa: N815


class OptionalCompactionInfoStruct(Struct):
    """A compaction, or none."""

    ci: Annotated[CompactionInfoStruct | None, 1] = None


resolve()
_TAKE = Call(
    "find_next_compact",
    {"workerId": str},
    OptionalCompactionInfoStruct,
    (MetaException,),
    changes=True,
    since=V4_0,
)
_FAIL = Call(
    "mark_failed", {"cr": CompactionInfoStruct}, NoneType, (MetaException,), changes=True, since=V4_0
)


for _call in (_TAKE, _FAIL):
    del DECLARED[
        _call.name
    ]  # the product does not declare them, and another test compares what it declares with Hive


class Worker(WritingMetastore):
    """A client that also takes compactions, as a worker of Hive does."""

    def fail_next(self, message: str) -> tuple[str, str]:
        """Take the next compaction and report that it failed; return its database and table."""
        taken = self._invoke(_TAKE, "worker").ci
        assert taken is not None
        taken.errorMessage = message
        self._invoke(_FAIL, taken)
        return taken.dbname, taken.tablename


def test_queued_and_failed_compactions_of_a_replica_are_shown_and_those_of_other_databases_are_not(
    target: ClusterEndpoints, database: str
) -> None:
    names = (f"{database}_r", f"{database}_other")
    config = SimpleNamespace(policy=lambda _: SimpleNamespace(replica_database=names[0]))
    watch = CompactionWatch(cast("Any", SimpleNamespace(config=config)), "dr", lambda: ("shop",))
    with Worker(target.metastore) as client:
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
