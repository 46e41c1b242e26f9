"""A flat table in an object store, on a Hive 4 metastore with S3 support:
the guarantees are the same as on a disk.

``TIDELINE_TEST_S3`` names the store (``make s3`` starts one); without it there is nothing to run against. The
tests are those of ``test_stream``, and a driver that is killed where it matters most; table, staging, dead
letters and checkpoint are in a bucket of the test's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from tests.builders.components.object_store import TestStore, hadoop_jars, hive_with_store
from tests.builders.flat.kills.driver_kills import Killed
from tests.integration.flat.test_stream import (
    base,
    stream,
    test_a_numeric_column_becomes_text_hour_by_hour_while_readers_see_correct_values,
    test_a_replayed_batch_changes_nothing,
    test_a_sealed_hour_is_one_file_and_holds_the_same,
    test_a_slot_without_values_in_retained_files_is_given_to_another_key,
    test_files_become_a_table_that_hive_reads,
    test_past_hours_are_backfilled_only_if_the_raw_table_holds_the_same_events,
    test_without_renames_files_are_copied_according_to_the_staged_record,
)


__all__ = [
    "base",
    "stream",
    "test_a_numeric_column_becomes_text_hour_by_hour_while_readers_see_correct_values",
    "test_a_replayed_batch_changes_nothing",
    "test_a_sealed_hour_is_one_file_and_holds_the_same",
    "test_a_slot_without_values_in_retained_files_is_given_to_another_key",
    "test_files_become_a_table_that_hive_reads",
    "test_past_hours_are_backfilled_only_if_the_raw_table_holds_the_same_events",
    "test_without_renames_files_are_copied_according_to_the_staged_record",
]


STEPS = ("flat.written", "flat.moved:1", "flat.counted:1", "flat.switch", "flat.deleted")


@pytest.fixture(scope="module")
def source(store: TestStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterEndpoints]:
    """A cluster whose metastore and engine have the object store's client among their jars."""
    with hive_with_store(store, tmp_path_factory.mktemp("hive")) as endpoints:
        yield endpoints


@pytest.fixture
def elsewhere(store: TestStore) -> dict[str, Any]:
    """Table and checkpoint in a new bucket."""
    bucket = store.new_bucket()
    return {"location": f"{bucket}/events_flat", "checkpoint": f"{bucket}/checkpoint"}


def test_a_driver_killed_repeatedly_loses_and_duplicates_nothing(
    elsewhere: dict[str, Any],
    store: TestStore,
    source: ClusterEndpoints,
    database: str,
    metastore: Metastore,
    tmp_path: Path,
) -> None:
    del metastore  # it has made the database
    conf = {"spark.jars": ",".join(map(str, hadoop_jars())), **store.spark}
    table = Killed(tmp_path, database, source.metastore, source.sql, elsewhere=elsewhere, conf=conf)
    for hour, step in enumerate(STEPS):
        # An integer that is wider every time, so that every batch alters the table first.
        table.land(range(hour, hour + 1), lambda n, hour=hour: n * 30**hour)  # type: ignore[misc]
        table.dies(step)
    table.ends_well()
