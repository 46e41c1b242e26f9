"""The crash matrix of replay with both clusters in an object store:
the test of ``test_replay_crash``, with other clusters.

``TIDELINE_TEST_S3`` names the store (``make s3`` starts one); without it there is nothing to run against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from dev.stack.endpoints import ClusterEndpoints
from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import Pair, on_file_system, running_pair
from tests.builders.components.object_store import TestStore, in_store
from tests.crash.test_replay_crash import (
    test_a_replica_killed_at_every_pass_through_a_failpoint_ends_equal_to_its_source,
    written,
)
from tests.integration.conftest import store


__all__ = [
    "store",
    "test_a_replica_killed_at_every_pass_through_a_failpoint_ends_equal_to_its_source",
    "written",
]

pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def pair(
    store: TestStore,  # noqa: F811 - a fixture asks for fixtures by their names
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    settings = [
        on_file_system(f"{store.new_bucket()}/{name}", in_store(store)) for name in ("source", "target")
    ]
    with (
        start_or_skip("two clusters in an object store"),
        running_pair(tmp_path_factory.mktemp("s3"), *settings) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def source(pair: Pair) -> ClusterEndpoints:
    return pair.source.endpoints()


@pytest.fixture(scope="module")
def target(pair: Pair) -> ClusterEndpoints:
    return pair.target.endpoints()


@pytest.fixture
def files(store: TestStore) -> Mapping[str, Mapping[str, object]]:  # noqa: F811 - likewise
    return {"s3a": store.arrow}
