"""The whole workload with both clusters on one name service of two NameNodes, before and after a failover:
seven JVMs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.hive.settings import ClusterSettings
from dev.stack.servers.hdfs_pair import HdfsPair
from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import Pair, on_file_system, running_pair
from tests.builders.replication.whole_workload import replicate_workload


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HdfsPair]:
    started = HdfsPair(tmp_path / "service")
    with start_or_skip("HDFS with two NameNodes"):
        started.start()
    yield started
    started.stop()


@pytest.fixture
def pair(service: HdfsPair, tmp_path: Path) -> Iterator[Pair]:
    settings = ClusterSettings(
        extra={**service.client_settings, "fs.defaultFS": service.uri, "dfs.replication": "1"}
    )
    both = [on_file_system(f"{service.uri}/{name}", settings) for name in ("source", "target")]
    with start_or_skip("two clusters on a name service"), running_pair(tmp_path / "pair", *both) as running:
        yield running


def test_a_replica_on_a_name_service_equals_its_source_before_and_after_a_failover(
    service: HdfsPair, pair: Pair
) -> None:
    files = {"hdfs": service.client_settings}
    replicate_workload(pair, files).projection.close()
    service.name_nodes["nn1"].kill()
    service.activate("nn2")
    replicate_workload(pair, files).projection.close()
