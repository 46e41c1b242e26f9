"""Replication into an object store: both clusters in it, and from HDFS and from a disk into it.

``TIDELINE_TEST_S3`` names the store (``make s3`` starts one); without it there is nothing to run against.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dev.stack.hive.settings import ClusterSettings
from dev.stack.servers.hdfs import Hdfs
from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import Pair, on_file_system, running_pair
from tests.builders.components.object_store import TestStore, in_store
from tests.builders.replication.small_workload import ACID, create_source
from tests.builders.replication.whole_workload import build_replica_of, replicate_workload


pytestmark = pytest.mark.long
SOURCES = ("s3a", "hdfs", "file")


@pytest.fixture(scope="module", params=SOURCES)
def pair(
    request: pytest.FixtureRequest, store: TestStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A source on a file system of its own, and a target in the store."""
    directory = tmp_path_factory.mktemp(request.param)
    target = on_file_system(f"{store.new_bucket()}/target", in_store(store))
    with ExitStack() as cleanup, start_or_skip(f"clusters on {request.param} and in an object store"):
        source = ClusterSettings()
        if request.param == "s3a":
            source = on_file_system(f"{store.new_bucket()}/source", in_store(store))
        elif request.param == "hdfs":
            source = on_file_system(f"{cleanup.enter_context(Hdfs(directory / 'hdfs')).uri}/source")
        yield cleanup.enter_context(running_pair(directory, source, target))


def test_a_replica_in_an_object_store_equals_its_source(pair: Pair, store: TestStore) -> None:
    replica = replicate_workload(pair, files={"s3a": store.arrow})
    counters = replica.context.copies.counters()
    assert (counters.files > 0, counters.mismatches) == (True, 0)
    replica.projection.close()


@pytest.mark.parametrize("pair", ["file"], indirect=True)
def test_a_rename_of_which_a_killed_metastore_copied_some_objects_is_repeated(
    pair: Pair, store: TestStore
) -> None:
    replica = build_replica_of(pair, {"s3a": store.arrow})
    db = replica.policy.source_db
    with pair.source.sql() as ours, pair.target.sql() as theirs, closing(replica.projection):
        create_source(ours, db)
        ours.run(f"create table {db}.sales (id int) partitioned by (dt string) {ACID}")
        ours.run(f"insert into {db}.sales values (1,'a'),(2,'b')")
        replica.follow()
        ours.run(f"alter table {db}.sales rename to {db}.orders")
        ours.run(f"alter table {db}.orders partition (dt='b') rename to partition (dt='c')")
        place = replica.context.table_cache.location("sales")
        store.copy_objects(f"{place}/dt=a", f"{place.removesuffix('sales')}orders/dt=a")
        replica.follow()
        assert replica.quarantined() == {}
        query = "select id, dt from {}.orders order by id"
        assert theirs.rows(query.format(replica.policy.target_db)) == [("1", "a"), ("2", "c")]
