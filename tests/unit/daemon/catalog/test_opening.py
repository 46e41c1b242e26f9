"""A catalog that cannot be opened leaves nothing open, so that the next attempt finds the state file
unlocked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from daemon.catalog.branch import BranchContext, CatalogTools, OpenBranch
from daemon.catalog.metrics import CatalogMetrics
from daemon.catalog.opening import open_catalog
from daemon.consumer.metrics import ProjectionMetrics
from daemon.process.metrics import LoopMetrics
from daemon.sources.connections import CallMetrics
from daemon.sources.shared_readers import SharedReaders
from state.errors import HBaseUnavailable


def test_a_branch_that_fails_to_open_keeps_neither_the_state_file_nor_another_branch(tmp_path: Path) -> None:
    closed: list[str] = []

    def open_first(_: BranchContext) -> OpenBranch:
        follower = SimpleNamespace(close=lambda: closed.append("follower"))
        first = SimpleNamespace(follower=follower, publisher=None, close=lambda: closed.append("branch"))
        return cast("OpenBranch", first)

    def fail(_: BranchContext) -> OpenBranch:
        raise HBaseUnavailable("the gateway does not answer")

    registry = CollectorRegistry()
    config: Any = SimpleNamespace(
        state=SimpleNamespace(dir=tmp_path),
        sources={"lake": SimpleNamespace(metastore=["thrift://127.0.0.1:1"])},
    )
    tools = CatalogTools(
        config,
        CallMetrics(registry),
        CatalogMetrics(registry, ProjectionMetrics(registry, LoopMetrics(registry))),
        SharedReaders(config),
        {"timelines": open_first, "partitions": fail},
    )
    for _ in range(2):  # the second attempt would fail with StateLocked
        with pytest.raises(HBaseUnavailable):
            open_catalog(tools, "lake")
    assert closed == ["follower", "branch"] * 2
