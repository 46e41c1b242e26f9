"""Actions on a source's catalog over HTTP, and the commands that send them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daemon.catalog.queries import query_routes
from daemon.catalog.routes import catalog_action_routes
from daemon.http.actions import Audit
from daemon.partitions import queries as partition_queries
from daemon.partitions.capability import Partitions
from daemon.process.inbox import Inbox, requests_directory
from daemon.service.command_line import tideline
from daemon.timelines import queries as timeline_queries
from daemon.timelines.capability import Timelines
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.http_client import HOST, acted, operated


LISTED = {
    "table": "a.b",
    "source": "lake",
    "state": "following",
    "problem": None,
    "partitions": 3,
    "loading": None,
}


class Lists:
    """Answers each query with the list of one table."""

    def answer(self, query: object) -> dict[str, Any]:
        del query
        return {"sources": {"lake": {}}, "tables": [LISTED], "total": 1}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    source = {"metastore": ["thrift://a:9083"], "topic": "t", "read_roots": []}
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "sources": {"lake": source, "pond": source | {"topic": "u"}},
            "kafka": {"bootstrap": "kafka:9092"},
            "catalog": {"lake": {"partitions": {"tables": ["*.*"]}}, "pond": {}},
        }
    )
    branches = (Timelines(), Partitions())
    lists = [
        *query_routes(timeline_queries.QUERIES, Lists(), reads_store=False),
        *query_routes(partition_queries.QUERIES, Lists(), reads_store=False),
    ]
    with operated(tmp_path, *catalog_action_routes(config, branches, Audit()), *lists) as server:
        yield server.port


@contextmanager
def catalog_of_lake(state_dir: Path, answer: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Serve the requests to the catalog, all with one answer; provide them."""
    inbox, stopping = Inbox(requests_directory(state_dir, "catalog", "lake")), threading.Event()
    requests: list[dict[str, Any]] = []
    inbox.open()

    def do(request: dict[str, Any]) -> dict[str, Any]:
        requests.append(request)
        return answer

    def serve() -> None:
        while not stopping.wait(0.01):
            inbox.serve(do)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield requests
    finally:
        stopping.set()
        thread.join()


def test_the_catalog_of_the_source_loads_the_table(port: int, tmp_path: Path) -> None:
    loaded = {"table": "a.b", "timelines": 2, "event_id": 7}
    with catalog_of_lake(tmp_path, loaded) as requests:
        answer = acted(port, "/api/v1/sources/lake/load-timelines", {"table": "A.b"})
    assert answer == (200, loaded)
    assert requests == [{"do": "load-timelines", "table": "a.b"}]


def run_elsewhere(tmp_path: Path, port: int, *arguments: str) -> Result:
    """Run a command on a machine without a configuration."""
    where = ["--url", f"http://{HOST}:{port}", "--token-file", str(tmp_path / "operator")]
    return CliRunner().invoke(tideline, [*arguments, *where])


DRIFT = {"column": "dt", "period": "DAILY", "missing": ["[2024-01-01, 2024-01-02)"], "surplus": []}
CHECKED = {"table": "a.b", "event_id": 7, "current_event_id": 7, "moving": False}
MIGRATED = {"table": "a.b", "column": "dt", "period": "DAILY", "before": "ranges", "after": "store-all"}
COMPARED = {"missing_count": 1, "surplus_count": 0, "differing_count": 0, "missing": ["dt=1"], "surplus": []}


@pytest.mark.parametrize(
    ("command", "answer", "request_sent", "code", "said"),
    [
        (
            "timeline rebuild A.b",
            {"table": "a.b", "timelines": 2, "event_id": 7},
            {"do": "load-timelines"},
            0,
            "a.b is loaded again: 2 timelines",
        ),
        (
            "timeline migrate a.b --column dt --period DAILY --to store-all",
            MIGRATED | {"written": True, "event_id": 7},
            {"do": "migrate-timeline", "column": "dt", "period": "DAILY", "to": "store-all"},
            0,
            "now has the form store-all",
        ),
        ("timeline check", CHECKED | {"drift": [DRIFT]}, {"do": "check-timelines"}, 1, "missing [2024-01-01"),
        (
            "partitions check a.b",
            CHECKED | COMPARED | {"drift": 1, "compared": 4, "differing": {}, "source_event_id": 7},
            {"do": "check-partitions"},
            1,
            "missing dt=1",
        ),
        (
            "partitions load a.b",
            {"table": "a.b", "event_id": 7},
            {"do": "load-partitions"},
            0,
            "a.b is following, 3 partitions",
        ),
    ],
)
def test_commands_change_and_check_the_catalog_of_a_daemon_elsewhere(
    port: int,
    tmp_path: Path,
    command: str,
    answer: dict[str, Any],
    request_sent: dict[str, str],
    code: int,
    said: str,
) -> None:
    with catalog_of_lake(tmp_path, answer) as requests:
        done = run_elsewhere(tmp_path, port, *command.split())
    assert requests == [{"table": "a.b", **request_sent}]
    assert done.exit_code == code, done.output
    assert said in done.output
    assert "No configuration file" not in done.output


def test_a_load_on_a_daemon_elsewhere_prints_the_table_as_data(port: int, tmp_path: Path) -> None:
    with catalog_of_lake(tmp_path, {"table": "a.b", "event_id": 7}):
        done = run_elsewhere(tmp_path, port, "partitions", "load", "a.b", "--json")
    assert json.loads(done.stdout[done.stdout.index("\n{") :]) == LISTED  # after a line of the log


@pytest.mark.parametrize("path", ["pond/load-partitions", "pond/check-partitions", "none/load-timelines"])
def test_a_source_without_the_branch_is_not_found(port: int, path: str) -> None:
    status, problem = acted(port, f"/api/v1/sources/{path}", {"table": "a.b"})
    assert (status, problem["code"]) == (404, "not-found")
