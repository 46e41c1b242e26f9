"""Replay is killed at every pass through every failpoint, and must still end equal to the source."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.replication.replay_kills import COMMIT_PATH, STEPS, KilledReplay
from tests.builders.replication.small_workload import Written, write_all
from tests.integration.conftest import source, stack, target


__all__ = ["source", "stack", "target"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def written(source: ClusterEndpoints) -> Written:  # noqa: F811 - a fixture asks for fixtures by their names
    with Session.connect(source.sql) as session, closing(Metastore([source.metastore])) as metastore:
        return write_all(session, metastore, f"crash_{uuid.uuid4().hex[:8]}")


@pytest.fixture
def files() -> Mapping[str, Mapping[str, object]] | None:
    """The options of file systems; the same tests run with other clusters elsewhere."""
    return None


@pytest.mark.parametrize("overlaps", [True, False], ids=["overlapping", "in order"])
@pytest.mark.parametrize("step", STEPS)
def test_a_replica_killed_at_every_pass_through_a_failpoint_ends_equal_to_its_source(
    step: str,
    written: Written,
    source: ClusterEndpoints,  # noqa: F811 - likewise
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path: Path,
    files: Mapping[str, Mapping[str, object]] | None,
    *,
    overlaps: bool,
) -> None:
    """The n-th run is killed at its n-th pass through the failpoint, so that each run gets further, until one
    finishes."""
    replay = KilledReplay.of(written, source, target, tmp_path, files=files, overlaps=overlaps)
    kills = 0
    while replay.run(f"{step}:{kills + 1}"):
        kills += 1
    log.info("%s: killed %d times", step, kills)
    assert kills > 0
    assert replay.differences() == []


@pytest.mark.parametrize("step", COMMIT_PATH)
def test_a_replica_killed_once_at_any_pass_of_the_commit_path_ends_equal_to_its_source(
    step: str,
    written: Written,
    source: ClusterEndpoints,  # noqa: F811 - likewise
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    """Every pass has its own replica, so that no kill is hidden by the state that another one left."""
    kills = 0
    while True:
        replay = KilledReplay.of(written, source, target, tmp_path)
        if not replay.run(f"{step}:{kills + 1}"):
            break
        kills += 1
        assert not replay.run()
        assert replay.differences() == [], f"{step}:{kills}"
    log.info("%s: %d passes", step, kills)
    assert kills > 0
