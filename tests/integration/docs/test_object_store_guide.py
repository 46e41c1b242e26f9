"""The guide to object stores, and its rights, work as they stand on their pages; ``make s3`` has a store."""

from __future__ import annotations

from pathlib import Path

import pyarrow.fs
import pytest

from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import on_file_system, running_pair
from tests.builders.components.object_store import TestStore, in_store
from tests.builders.components.page_runner import DOCS, PageRunner, cut_section, read_blocks


pytestmark = pytest.mark.long


def test_a_database_of_one_bucket_is_replicated_to_another(
    store: TestStore, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = store.new_bucket(), store.new_bucket()
    monkeypatch.setenv("S3_ACCESS_KEY", store.access_key)
    monkeypatch.setenv("S3_SECRET_KEY", store.secret_key)
    settings = [on_file_system(root, in_store(store)) for root in (source, target)]
    with start_or_skip("two clusters in an object store"), running_pair(tmp_path, *settings) as pair:
        ours, theirs = pair.source.endpoints(), pair.target.endpoints()
        named = f'region: us-east-1, endpoint_override: "{store.address}", scheme: {store.scheme}'
        addresses = {
            "thrift://source-metastore:9083": ours.metastore,
            "thrift://target-metastore:9083": theirs.metastore,
            "kafka:9092": kafka,
            "s3a://source/": f"{source}/",
            "s3a://target/": f"{target}/",
            "{region: us-east-1}": f"{{{named}}}",
            "state: {dir": "http: {port: 0}\nstate: {dir",
            "tideline.lake": f"tideline.{tmp_path.name}",
        }
        with PageRunner(tmp_path, {"source": ours.sql, "target": theirs.sql}, addresses) as runner:
            runner.run((DOCS / "guides/object-store.md").read_text())


def test_the_policy_lets_the_daemon_read_one_bucket_and_write_below_one_directory_of_the_other(
    store: TestStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = store.new_bucket(), store.new_bucket()
    system = pyarrow.fs.S3FileSystem(**store.arrow)
    for directory in (
        f"{source}/warehouse",
        f"{source}/cmroot",
        f"{target}/warehouse",
        f"{target}/elsewhere",
    ):
        with system.open_output_stream(f"{directory.removeprefix('s3a://')}/t/000000_0") as file:
            file.write(b"1")
    named = f'region: us-east-1, endpoint_override: "{store.address}", scheme: {store.scheme}'
    addresses = {
        "s3a://source/": f"{source}/",
        "s3a://target/": f"{target}/",
        ":::source": f":::{source.removeprefix('s3a://')}",
        ":::target": f":::{target.removeprefix('s3a://')}",
        "{region: us-east-1}": f"{{{named}}}",
        "S3_SECRET_KEY}}": "S3_SECRET_KEY}, session_token: {env: S3_TOKEN}}",
    }
    page = cut_section((DOCS / "guides/least-privilege.md").read_text(), "Object stores")
    (policy,) = [block.text for block in read_blocks(page) if block.title == "policy.json"]
    for name, instead in addresses.items():
        policy = policy.replace(name, instead)
    for variable, value in zip(
        ("S3_ACCESS_KEY", "S3_SECRET_KEY", "S3_TOKEN"), store.assume(policy), strict=True
    ):
        monkeypatch.setenv(variable, value)
    with PageRunner(tmp_path, {}, addresses) as runner:
        runner.run(page)
