"""A target of Hive 4.1 with a source of 4.2: the whole workload, written and compared through each version's own SQL engine."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dev.stack.hive.settings import ClusterSettings
from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import Pair, running_pair
from tests.builders.replication.verification import verify
from tests.builders.replication.whole_workload import replicate_workload


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.old_hive, pytest.mark.long]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as running:
        with start_or_skip("clusters of Hive 4.2 and 4.1"):
            made = running.enter_context(
                running_pair(tmp_path, ClusterSettings(), ClusterSettings(hive="4.1"))
            )
        yield made


def test_a_replica_on_an_older_hive_4_equals_its_source(pair: Pair) -> None:
    replica = replicate_workload(pair)
    found = verify(replica)
    assert {name: each.differences for name, each in found.items() if each.differences} == {}
    replica.projection.close()
