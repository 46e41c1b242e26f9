"""A Spark copy job from a disk into an object store:
its keys reach the executors, and its fence is an object.

``TIDELINE_TEST_S3`` names the store (``make s3`` starts one); without it there is nothing to run against.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import SizedTask
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from tests.builders.components.object_store import TestStore
from tests.builders.replication.spark_jobs import spark_jobs


pytestmark = pytest.mark.long


def test_executors_write_into_a_store_and_nothing_but_the_files_stays(
    store: TestStore, tmp_path: Path
) -> None:
    base, options = f"{store.new_bucket()}/base", {"s3a": store.arrow}
    copies = []
    for number in range(5):
        file = tmp_path / f"f{number}"
        file.write_bytes(b"x" * number)
        task = CopyTask(SourceFile(f"file:{file}"), f"{base}/t/{file.name}", base)
        copies.append(SizedTask(task, number))
    jobs = spark_jobs([f"file:{tmp_path}"], options=options)
    outcomes = jobs.run(copies, guard=lambda: None, stopping=threading.Event())
    assert [each.size_bytes for each in outcomes if isinstance(each, Copied)] == list(range(5))
    files = open_file_systems(options).of(parse_location(base))
    assert [entry.name for entry in files.list(parse_location(base))] == ["t"]
    assert [entry.size_bytes for entry in files.list(parse_location(f"{base}/t"))] == list(range(5))
