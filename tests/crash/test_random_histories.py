"""Several writers change tables of every kind at random while the daemon, the metastores and the broker are
killed; the replica ends equal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.cluster import Stack
from dev.stack.hive.settings import ClusterSettings
from tests.builders.daemon.killed_stack import killable_stack
from tests.builders.replication.killed_history import ABANDONED, check_random_history
from tests.builders.replication.spanning_history import check_spanning_history


pytestmark = pytest.mark.crash


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with killable_stack(tmp_path_factory.mktemp("histories"), ClusterSettings(extra=ABANDONED)) as stack:
        yield stack


@pytest.mark.parametrize("seed", [1, 2, 3, 12, 13])
def test_a_replica_of_a_random_history_equals_its_source_whatever_was_killed(
    seed: int, own_stack: Stack, tmp_path: Path
) -> None:
    check_random_history(own_stack, seed, tmp_path)


@pytest.mark.parametrize("seed", [1, 2])
def test_policies_whose_transactions_span_two_of_five_databases_end_equal_whatever_was_killed(
    seed: int, own_stack: Stack, tmp_path: Path
) -> None:
    check_spanning_history(own_stack, seed, tmp_path, kills=8)
