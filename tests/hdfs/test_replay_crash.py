"""The crash matrix of replay with both clusters on HDFS: the tests of ``tests/crash/test_replay_crash.py``,
with other clusters."""

from __future__ import annotations

import pytest

from dev.stack.cluster import Stack
from dev.stack.endpoints import ClusterEndpoints
from tests.crash.test_replay_crash import (
    files,
    test_a_replica_killed_at_every_pass_through_a_failpoint_ends_equal_to_its_source,
    written,
)


__all__ = [
    "files",
    "test_a_replica_killed_at_every_pass_through_a_failpoint_ends_equal_to_its_source",
    "written",
]


@pytest.fixture(scope="module")
def source(clusters: Stack) -> ClusterEndpoints:
    return clusters.source.endpoints()


@pytest.fixture(scope="module")
def target(clusters: Stack) -> ClusterEndpoints:
    return clusters.target.endpoints()
