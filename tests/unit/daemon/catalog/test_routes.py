"""Actions on a source's catalog over HTTP load one table again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.catalog.routes import load_routes
from daemon.http.actions import Audit
from daemon.partitions.capability import Partitions
from daemon.process.inbox import Inbox, requests_directory
from daemon.timelines.capability import Timelines
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.http_client import acted, operated


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    source = {"metastore": ["thrift://a:9083"], "topic": "t", "read_roots": []}
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "sources": {"lake": source, "pond": source | {"topic": "u"}},
            "kafka": {"bootstrap": "kafka:9092"},
            "catalog": {"lake": {}},
        }
    )
    branches = (Timelines(), Partitions())
    with operated(tmp_path, *load_routes(config, branches, Audit())) as server:
        yield server.port


def test_the_catalog_of_the_source_loads_the_table(port: int, tmp_path: Path) -> None:
    inbox, stopping, asked = Inbox(requests_directory(tmp_path, "catalog", "lake")), threading.Event(), []
    inbox.open()

    def do(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {"table": "a.b", "timelines": 2, "event_id": 7}

    def serve() -> None:
        while not stopping.wait(0.01):
            inbox.serve(do)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        answer = acted(port, "/api/v1/sources/lake/load-timelines", {"table": "A.b"})
    finally:
        stopping.set()
        thread.join()
    assert answer == (200, {"table": "a.b", "event_id": 7})
    assert asked == [{"do": "rebuild", "table": "a.b"}]


@pytest.mark.parametrize("path", ["lake/load-partitions", "pond/load-timelines", "none/load-timelines"])
def test_a_source_without_the_branch_is_not_found(port: int, path: str) -> None:
    status, problem = acted(port, f"/api/v1/sources/{path}", {"table": "a.b"})
    assert (status, problem["code"]) == (404, "not-found")
