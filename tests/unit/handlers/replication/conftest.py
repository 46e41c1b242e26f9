"""A replica over fakes, closed after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.replication.fake_target import FakedReplica, faked_replica


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path)
    yield made
    made.projection.close()
