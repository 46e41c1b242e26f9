"""The driver of a flat table is killed at every step of a batch,
a seal, a promotion, a narrowing and the reuse of a slot.

Each run brings new events, dies at one step, and the next run carries on from there, with more events, to the
next step. After every death a naive reader and Hive's own look at the table: no row twice, none of a finished
batch missing, every value in its column or in ``_rescued``. At the end everything that the source holds, a
directory or a topic of three partitions, is in the table or in the dead letters, once.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.flat.feeds import DirectoryFeed, Feed, TopicFeed
from tests.builders.flat.kills.archived_spark import _use_archived_spark, archived_spark
from tests.builders.flat.kills.driver_kills import Killed
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
ARRIVING = [
    "flat.planned:2",
    "flat.promoting",
    "flat.flip",
    "flat.moved:5",
    "flat.batch:3",
    "flat.switched",
]


@pytest.fixture(params=["directory", "topic"])
# F811: fixtures, by their names
def table(request: pytest.FixtureRequest, source: ClusterEndpoints, kafka: str) -> Killed:  # noqa: F811
    database = f"crash_{uuid.uuid4().hex[:8]}"
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    base = Path(source.external) / database
    if request.param == "directory":
        feed: Feed = DirectoryFeed(base / "landing")
    else:
        feed = TopicFeed(kafka, database, records=10_000 if request.param == "busy topic" else 30)
    return Killed(base, database, source.metastore, source.sql, feed=feed)


def test_killed_at_every_step_of_a_batch_no_row_is_lost_or_duplicated(table: Killed) -> None:
    survive_kills_in_batches(table)


@pytest.mark.parametrize("table", ["busy topic"], indirect=True)
def test_killed_while_records_keep_arriving_no_row_is_lost_or_duplicated(table: Killed) -> None:
    with table.arriving():
        for step in ARRIVING:
            table.dies(step, follow=True)
    table.ends_well()


def test_killed_at_every_step_of_a_seal_no_row_is_lost_or_duplicated(table: Killed) -> None:
    survive_kills_in_seals(table)


def test_killed_at_every_step_of_a_promotion_values_stay_correct(table: Killed) -> None:
    survive_kills_in_a_promotion(table)


def test_killed_at_every_step_of_a_narrowing_values_stay_correct(table: Killed) -> None:
    survive_kills_in_a_narrowing(table)


def test_killed_at_every_step_of_a_slots_reuse_no_reader_sees_the_old_keys_values(table: Killed) -> None:
    survive_kills_in_a_reuse(table)
