"""A flat table on HDFS, with its checkpoint, its source directory and its Hive metastore there as well.

The tests are those of ``test_stream``, and a driver that is killed at every step of a batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from tests.builders.flat.feeds import DirectoryFeed, Feed, TopicFeed
from tests.builders.flat.kills.driver_kills import Killed
from tests.builders.flat.kills.step_kills import survive_kills_in_batches
from tests.integration.flat.test_stream import (
    stream,
    test_a_numeric_column_becomes_text_hour_by_hour_while_readers_see_correct_values,
    test_a_replayed_batch_changes_nothing,
    test_a_sealed_hour_is_one_file_and_holds_the_same,
    test_a_slot_without_values_in_retained_files_is_given_to_another_key,
    test_a_text_column_of_numbers_becomes_numeric_on_request_unless_text_arrives,
    test_files_become_a_table_that_hive_reads,
    test_past_hours_are_backfilled_only_if_the_raw_table_holds_the_same_events,
)


__all__ = [
    "stream",
    "test_a_numeric_column_becomes_text_hour_by_hour_while_readers_see_correct_values",
    "test_a_replayed_batch_changes_nothing",
    "test_a_sealed_hour_is_one_file_and_holds_the_same",
    "test_a_slot_without_values_in_retained_files_is_given_to_another_key",
    "test_a_text_column_of_numbers_becomes_numeric_on_request_unless_text_arrives",
    "test_files_become_a_table_that_hive_reads",
    "test_past_hours_are_backfilled_only_if_the_raw_table_holds_the_same_events",
]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The landing directory of the tests of ``test_stream`` is on the disk."""
    return tmp_path


@pytest.fixture(params=["directory", "topic"])
def feed(request: pytest.FixtureRequest, place: str, kafka: str, topic: str) -> Feed:
    """A directory on HDFS, or a topic."""
    return DirectoryFeed(f"{place}/landing") if request.param == "directory" else TopicFeed(kafka, topic)


# PLR0913, PLR0917: fixtures
def test_a_driver_killed_at_every_step_of_a_batch_loses_and_duplicates_nothing(  # noqa: PLR0913, PLR0917
    feed: Feed,
    elsewhere: dict[str, Any],
    source: ClusterEndpoints,
    database: str,
    metastore: Metastore,
    tmp_path: Path,
) -> None:
    del metastore  # it has made the database
    table = Killed(tmp_path, database, source.metastore, source.sql, feed=feed, elsewhere=elsewhere)
    survive_kills_in_batches(table)
