"""One kill at the most critical step; the full matrix is in tests/crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from tests.builders.flat.kills.driver_kills import Killed


@pytest.mark.long
def test_a_driver_killed_between_two_files_of_a_batch_resumes_without_loss_or_duplicates(
    source: ClusterEndpoints, database: str, metastore: Metastore
) -> None:
    table = Killed(Path(source.external) / database, database, source.metastore, source.sql, hostile=True)
    table.land(range(1), lambda n: n)
    table.dies("flat.moved:1")
    table.ends_well()
