"""Source and target of different versions of Hive 4: the whole workload, written and compared through each
version's own SQL engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.stack.hive.settings import ClusterSettings
from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import Pair, running_pair
from tests.builders.replication.verification import find_differences
from tests.builders.replication.whole_workload import replicate_workload


pytestmark = [pytest.mark.old_hive, pytest.mark.long]


@pytest.fixture(params=[("4.2", "4.0"), ("4.2", "4.1"), ("4.1", "4.2"), ("4.0", "4.2")], ids="-to-".join)
def pair(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    source, target = (ClusterSettings(hive=version) for version in request.param)
    with ExitStack() as running:
        with start_or_skip(f"clusters of Hive {source.hive} and {target.hive}"):
            made = running.enter_context(running_pair(tmp_path, source, target))
        yield made


def test_a_replica_of_another_hive_4_equals_its_source(pair: Pair) -> None:
    replica = replicate_workload(pair)
    assert find_differences(replica) == {}
    replica.projection.close()
