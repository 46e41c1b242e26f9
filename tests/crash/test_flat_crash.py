"""The driver of a flat table is killed at every step of a batch, a seal, a promotion, a narrowing and the reuse of a slot.

Each run brings new events, dies at one step, and the next run carries on from there, with more events, to the next step. After every
death a naive reader and Hive's own look at the table: no row twice, none of a finished batch missing, every value in its column or
in ``_rescued``. At the end everything that the source holds, a directory or a topic of three partitions, is in the table or in the
dead letters, once.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.flat.archived_spark import _use_archived_spark, archived_spark
from tests.builders.flat.driver_kills import BATCH, NARROWING, PROMOTION, REUSE, SEAL, Killed, plain
from tests.builders.flat.feeds import DirectoryFeed, TopicFeed
from tests.integration.conftest import kafka, source, stack


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from tests.builders.flat.feeds import Feed

__all__ = ["_use_archived_spark", "archived_spark", "kafka", "source", "stack"]

pytestmark = pytest.mark.crash
ARRIVING = [
    "flat.planned:2",
    "flat.hardening",
    "flat.flip",
    "flat.moved:5",
    "flat.batch:3",
    "flat.switched",
]


@pytest.fixture(params=["directory", "topic"])
def table(request: pytest.FixtureRequest, source: ClusterEndpoints, kafka: str) -> Killed:  # noqa: F811 - fixtures, by their names
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
    for hour, step in enumerate(BATCH):
        # An integer that is wider every time, so that every batch alters the table first.
        table.land(range(hour, hour + 1), lambda n, hour=hour: n * 3**hour)  # type: ignore[misc]
        table.dies(step)
    table.ends_well()


@pytest.mark.parametrize("table", ["busy topic"], indirect=True)
def test_killed_while_records_keep_arriving_no_row_is_lost_or_duplicated(table: Killed) -> None:
    with table.arriving():
        for step in ARRIVING:
            table.dies(step, follow=True)
    table.ends_well()


def test_killed_at_every_step_of_a_seal_no_row_is_lost_or_duplicated(table: Killed) -> None:
    table.land(range(2), lambda n: n)
    table.ends_well()
    for hour, step in enumerate(SEAL, start=2):
        table.land(range(hour, hour + 1), lambda n: n)
        table.dies(step)
    table.ends_well()


def test_killed_at_every_step_of_a_promotion_values_stay_correct(table: Killed) -> None:
    table.land(range(3), lambda n: n)
    table.ends_well()
    table.land(range(3, 4), lambda n: "007" if n == 7 else f"x{n}" if n % 2 else n)
    table.ends_well()
    for hour, step in enumerate(PROMOTION, start=4):
        table.land(range(hour, hour + 1), lambda n: n)
        table.dies(step)
    table.ends_well()
    with closing(Metastore(table.metastore_uri)) as metastore:
        columns = {c.name: c.type for c in metastore.get_table(table.database, "events_flat").sd.cols or []}
    assert columns["n"] == "string"


def test_killed_at_every_step_of_a_narrowing_values_stay_correct(table: Killed) -> None:
    table.land(range(3), str)
    table.ends_well()
    table.narrows = "n"
    table.dies("flat.rewritten")
    table.narrows = ""
    for hour, step in enumerate(NARROWING, start=3):
        table.land(range(hour, hour + 1), plain)
        table.dies(step)
    table.ends_well()
    with closing(Metastore(table.metastore_uri)) as metastore:
        columns = {c.name: c.type for c in metastore.get_table(table.database, "events_flat").sd.cols or []}
    assert columns["n"] == "tinyint"


def test_killed_at_every_step_of_a_slots_reuse_no_reader_sees_the_old_keys_values(table: Killed) -> None:
    table.rules = {"retention_days": 1, "empty_days": 1}
    table.keys = ["epoch", "uuid", "n", "old"]
    table.land(range(-30, -28), lambda n: n, old="gone")
    table.ends_well()
    table.keys = ["epoch", "uuid", "n"]
    table.land(range(2), lambda n: n, old="unasked")
    assert table.run() == 0
    assert slots(table)["old"] == 3, "retired, and kept while old hours are"
    table.expires()
    table.keys = ["epoch", "uuid", "n", "fresh"]
    for hour, step in enumerate(REUSE, start=2):
        table.land(range(hour, hour + 1), lambda n: n, fresh="new")
        table.dies(step)
    table.ends_well()
    assert slots(table)["fresh"] == 3


def slots(table: Killed) -> dict[str, int]:
    """The positions of the table's columns."""
    with closing(Metastore(table.metastore_uri)) as metastore:
        columns = metastore.get_table(table.database, "events_flat").sd.cols or []
    return {column.name: index for index, column in enumerate(columns)}
