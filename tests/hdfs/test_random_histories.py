"""As ``tests/crash/test_random_histories.py``, with the warehouses and change managers of both clusters on
HDFS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.cluster import Stack
from dev.stack.hive.settings import ClusterSettings
from dev.stack.servers.hdfs import Hdfs
from tests.builders.daemon.killed_stack import killable_stack
from tests.builders.replication.killed_history import ABANDONED, check_random_history
from tests.hdfs.conftest import on_hdfs


@pytest.fixture
def own_stack(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    root = tmp_path_factory.mktemp("histories")
    source, target = (on_hdfs(hdfs.uri, f"{root.name}/{side}") for side in ("source", "target"))
    source = ClusterSettings(extra={**source.extra, **ABANDONED})
    with killable_stack(root, source, target) as stack:
        yield stack


@pytest.mark.parametrize("seed", [4, 5, 21])
def test_a_replica_of_a_random_history_equals_its_source_whatever_was_killed(
    seed: int, own_stack: Stack, tmp_path: Path
) -> None:
    check_random_history(own_stack, seed, tmp_path)
