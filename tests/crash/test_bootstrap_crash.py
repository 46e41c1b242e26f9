"""A bootstrap is killed at every pass through every failpoint, and must still end equal to the source."""

from __future__ import annotations

import logging
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.replication.replay_kills import BOOTSTRAP_STEPS, KilledReplay
from tests.builders.replication.small_workload import QUERIES, Written, write_all
from tests.integration.conftest import source, stack, target


__all__ = ["source", "stack", "target"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def written(source: ClusterEndpoints) -> Written:  # noqa: F811 - a fixture asks for fixtures by their names
    with Session.connect(source.sql) as session, closing(Metastore([source.metastore])) as metastore:
        return write_all(session, metastore, f"boot_{uuid.uuid4().hex[:8]}")


@pytest.mark.parametrize("step", BOOTSTRAP_STEPS)
def test_a_bootstrap_killed_at_every_pass_through_a_failpoint_ends_equal_to_its_source(
    step: str,
    written: Written,
    source: ClusterEndpoints,  # noqa: F811 - likewise
    target: ClusterEndpoints,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    """The n-th run is killed at its n-th pass through the failpoint, so that each run gets further, until one
    finishes."""
    replay = KilledReplay.of(written, source, target, tmp_path, "tests.crash.programs.bootstrap_program")
    kills = 0
    while replay.run(f"{step}:{kills + 1}"):
        kills += 1
    log.info("%s: killed %d times", step, kills)
    assert kills > 0
    assert replay.differences(files=False) == []
    with Session.connect(source.sql) as ours, Session.connect(target.sql) as theirs:
        for table, query in QUERIES.items():
            rows = ours.rows(query.format(db=written.db))
            assert theirs.rows(query.format(db=replay.target_db)) == rows, table
