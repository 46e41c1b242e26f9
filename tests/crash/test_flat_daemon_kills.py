"""The daemon of a flat table is killed at every step of its driver, and the driver's JVM alone.

The driver of a killed daemon must end by itself, with its JVM; the daemon that is started next continues. A
driver whose JVM was killed is replaced by the daemon. The table is checked at every step as in
``test_flat_crash``: every event that the source holds, a directory or a topic of three partitions, is in the
table or in the dead letters once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.flat.feeds import DirectoryFeed, Feed, TopicFeed
from tests.builders.flat.kills.archived_spark import _use_archived_spark, archived_spark
from tests.builders.flat.kills.daemon_kills import KilledDaemon, survive_random_kills
from tests.builders.flat.kills.step_kills import (
    survive_kills_in_a_narrowing,
    survive_kills_in_a_promotion,
    survive_kills_in_a_reuse,
    survive_kills_in_batches,
    survive_kills_in_seals,
)
from tests.integration.conftest import kafka, source, stack


__all__ = ["_use_archived_spark", "archived_spark", "kafka", "source", "stack"]

pytestmark = pytest.mark.crash
SEED = 12
ROUNDS = 12


@pytest.fixture(params=["directory", "topic"])
def feed(
    request: pytest.FixtureRequest,
    kafka: str,  # noqa: F811 - a fixture, by its name
    base: Path,
) -> Feed:
    if request.param == "directory":
        (base / "landing").mkdir(parents=True)
        return DirectoryFeed(base / "landing")
    return TopicFeed(kafka, base.name)


@pytest.fixture
def base(source: ClusterEndpoints) -> Path:  # noqa: F811 - a fixture, by its name
    return Path(source.external) / f"crash_{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=["daemon", "JVM"])
def table(
    request: pytest.FixtureRequest,
    source: ClusterEndpoints,  # noqa: F811 - a fixture, by its name
    base: Path,
    feed: Feed,
    tmp_path: Path,
) -> Iterator[KilledDaemon]:
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=base.name))
    given = {"feed": feed, "directory": tmp_path / "daemon", "victim": request.param}
    made = KilledDaemon(base, base.name, source.metastore, source.sql, **given)
    yield made
    made.stop()


def test_killed_at_every_step_of_a_batch_no_row_is_lost_or_duplicated(table: KilledDaemon) -> None:
    survive_kills_in_batches(table)


def test_killed_at_every_step_of_a_seal_no_row_is_lost_or_duplicated(table: KilledDaemon) -> None:
    survive_kills_in_seals(table)


def test_killed_at_every_step_of_a_promotion_values_stay_correct(table: KilledDaemon) -> None:
    survive_kills_in_a_promotion(table)


def test_killed_at_every_step_of_a_narrowing_values_stay_correct(table: KilledDaemon) -> None:
    survive_kills_in_a_narrowing(table)


def test_killed_at_every_step_of_a_slots_reuse_no_reader_sees_the_old_keys_values(
    table: KilledDaemon,
) -> None:
    survive_kills_in_a_reuse(table)


@pytest.mark.parametrize("table", ["daemon"], indirect=True)
def test_random_victims_are_killed_at_random_steps_and_no_row_is_lost_or_duplicated(
    table: KilledDaemon,
) -> None:
    killed = survive_random_kills(table, Random(SEED), ROUNDS)  # noqa: S311 - a test
    assert {victim for _, victim in killed} == {"daemon", "driver", "JVM"}
