"""A replica over fakes, closed after each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.replication.fake_target import FakedReplica, faked_replica


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path)
    yield made
    made.projection.close()
