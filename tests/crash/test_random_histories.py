"""Several writers change tables of every kind at random while the daemon, the metastores and the broker are killed; the replica ends equal."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.builders.daemon.killed_stack import KilledReplica, killable_stack
from tests.builders.replication.killed_history import abort_abandoned, find_differences, write_and_kill
from tests.builders.replication.random_writers import WEIGHTS
from tests.builders.replication.small_workload import create_source


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dev.stack.cluster import Stack


log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

KILLS = 12


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with killable_stack(tmp_path_factory.mktemp("histories")) as stack:
        yield stack


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_replica_of_a_random_history_equals_its_source_whatever_was_killed(
    seed: int, own_stack: Stack, tmp_path: Path
) -> None:
    db = f"history_{uuid.uuid4().hex[:8]}"
    with own_stack.source.sql() as sql:
        create_source(sql, db)
    replica = KilledReplica.of(own_stack, db, tmp_path)
    with replica.daemon:
        counts = write_and_kill(replica, seed, KILLS)
        log.info("kills: %s; statements: %s", replica.kills, sorted(counts.items()))
        abort_abandoned(replica)
        replica.settle()
        assert find_differences(replica) == []
    done = {kind for kind, outcome in counts if outcome == "done"}
    assert done >= WEIGHTS.keys() - {"fail"}, "every kind of statement succeeded at least once"
