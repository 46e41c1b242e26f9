"""External tables with both clusters on HDFS, and their copies killed: the tests of other suites, with other
fixtures."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from dev.stack.cluster import Stack
from dev.stack.servers.hdfs import Hdfs
from tests.builders.replication.lake import Lake, open_lake
from tests.crash.test_external_copies import (
    Trees,
    test_a_copy_that_is_killed_again_and_again_copies_every_file_once,
)
from tests.integration.replication.test_external_tables import (
    test_a_file_that_vanished_at_the_source_is_removed_only_on_request,
    test_a_partition_outside_of_its_table_follows_it_below_the_base_and_is_listed,
    test_a_table_that_moves_gets_the_files_of_its_new_directory,
    test_files_that_are_being_written_and_unusual_directories_are_copied_as_readers_see_them,
    test_files_that_other_programs_write_reach_the_target_without_any_event,
    test_rows_of_hive_itself_and_of_others_are_there_once,
)


__all__ = [
    "test_a_copy_that_is_killed_again_and_again_copies_every_file_once",
    "test_a_file_that_vanished_at_the_source_is_removed_only_on_request",
    "test_a_partition_outside_of_its_table_follows_it_below_the_base_and_is_listed",
    "test_a_table_that_moves_gets_the_files_of_its_new_directory",
    "test_files_that_are_being_written_and_unusual_directories_are_copied_as_readers_see_them",
    "test_files_that_other_programs_write_reach_the_target_without_any_event",
    "test_rows_of_hive_itself_and_of_others_are_there_once",
]


@pytest.fixture(scope="module")
def lake(clusters: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    source, target = clusters.source.endpoints(), clusters.target.endpoints()
    with open_lake(source, target, tmp_path_factory.mktemp("lists")) as made:
        yield made


@pytest.fixture
def trees(hdfs: Hdfs, tmp_path: Path) -> Trees:
    root = f"/trees_{uuid.uuid4().hex[:8]}"
    hdfs_native.Client(hdfs.uri).mkdirs(f"{root}/base", 0o755, create_parent=True)
    (tmp_path / "state").mkdir()
    return Trees(f"{hdfs.uri}{root}/source", f"{hdfs.uri}{root}/base", tmp_path / "state")
