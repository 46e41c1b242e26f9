"""The guide to object stores works as it stands on its page; ``make s3`` has a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.components.availability import start_or_skip
from tests.builders.components.clusters import on_file_system, running_pair
from tests.builders.components.object_store import TestStore, in_store
from tests.builders.components.page_runner import DOCS, PageRunner


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
