"""External tables of a source on HDFS whose copies are in an object store: the tests of
``test_external_tables``, with other clusters.

``TIDELINE_TEST_S3`` names the store (``make s3`` starts one); without it there is nothing to run against.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dev.stack.servers.hdfs import Hdfs
from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import on_file_system, running_pair
from tests.builders.components.object_store import TestStore, in_store
from tests.builders.replication.lake import Lake, open_lake
from tests.integration.replication.test_external_tables import (
    test_a_file_that_vanished_at_the_source_is_removed_only_on_request,
    test_a_partition_outside_of_its_table_follows_it_below_the_base_and_is_listed,
    test_a_table_that_moves_gets_the_files_of_its_new_directory,
    test_files_that_are_being_written_and_unusual_directories_are_copied_as_readers_see_them,
    test_files_that_other_programs_write_reach_the_target_without_any_event,
    test_rows_of_hive_itself_and_of_others_are_there_once,
)


__all__ = [
    "test_a_file_that_vanished_at_the_source_is_removed_only_on_request",
    "test_a_partition_outside_of_its_table_follows_it_below_the_base_and_is_listed",
    "test_a_table_that_moves_gets_the_files_of_its_new_directory",
    "test_files_that_are_being_written_and_unusual_directories_are_copied_as_readers_see_them",
    "test_files_that_other_programs_write_reach_the_target_without_any_event",
    "test_rows_of_hive_itself_and_of_others_are_there_once",
]

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lake(store: TestStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    directory = tmp_path_factory.mktemp("clusters")
    target = on_file_system(f"{store.new_bucket()}/target", in_store(store))
    with ExitStack() as cleanup:
        with start_or_skip("clusters on HDFS and in an object store"):
            source = on_file_system(f"{cleanup.enter_context(Hdfs(directory / 'hdfs')).uri}/source")
            pair = cleanup.enter_context(running_pair(directory, source, target))
        lists = tmp_path_factory.mktemp("lists")
        with open_lake(pair.source.endpoints(), pair.target.endpoints(), lists, {"s3a": store.arrow}) as made:
            yield made
