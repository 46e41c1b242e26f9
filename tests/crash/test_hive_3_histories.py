"""Three writers change tables of a Hive 3.1 source at random, with compactions, while the daemon, the relay,
both metastores and the broker are killed; the replica ends equal.

The source uses PostgreSQL: on Derby, one run had two events with the same id
(reference: hive-3.1-source.md §1). With TIDELINE_HIVE_3_ON=hdfs, its directories are on HDFS.

``make hive-3-histories`` runs it: TIDELINE_HIVE_3_SEEDS and TIDELINE_HIVE_3_KILLS set its length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from dev.stack.cluster import Stack
from dev.stack.hive.postgres import open_postgres
from dev.stack.servers.hdfs import Hdfs
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hdfs_files import on_hdfs
from tests.builders.components.hive_3 import ON
from tests.builders.daemon.killed_stack import killable_stack
from tests.builders.replication.hive_3_history import check_hive_3_history, hive_3


pytestmark = [pytest.mark.crash, pytest.mark.old_hive]

SEEDS: Final = [int(seed) for seed in os.environ.get("TIDELINE_HIVE_3_SEEDS", "1").split(",")]


@pytest.fixture
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with ExitStack() as servers:
        with start_or_skip("PostgreSQL"):
            database = servers.enter_context(open_postgres())
        directory = tmp_path_factory.mktemp("histories")
        extra: dict[str, str] = {}
        if ON == "hdfs":
            extra = on_hdfs(servers.enter_context(Hdfs(directory / "hdfs")).uri, "source")
        yield servers.enter_context(killable_stack(directory, hive_3(extra), source_database=database))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_of_a_hive_3_equals_its_source_whatever_was_killed(
    seed: int, own_stack: Stack, tmp_path: Path
) -> None:
    check_hive_3_history(own_stack, seed, tmp_path)
