"""From ADD_PARTITION on a real source to an answer over HTTP, through the daemon as an operator runs it."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import yaml


if TYPE_CHECKING:
    from pathlib import Path

    from dev.stack.endpoints import Endpoints
    from dev.stack.sql import Session


COMMAND = [sys.executable, "-c", "from daemon.cli import main; main()"]
Ask = Callable[[str], dict[str, Any]]
Tideline = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> Path:
    path = tmp_path / "tideline.yaml"
    values = {
        "sources": {"lake": {"metastore": [stack.source.metastore], "topic": topic}},
        "catalog": {
            "lake": {
                "rules": {"all": {"tables": [f"{database}.*"], "columns": ["dt"]}},
                "lens": False,
            }
        },
        "facts": {"sales": {"source": "lake", "tables": {f"{database}.days": {}, f"{database}.hours": {}}}},
        "kafka": {"bootstrap": stack.kafka, "dead_letter_topic": f"{topic}.dead"},
        "state": {"dir": str(tmp_path / "state")},
        "http": {"port": 0},
        "logs": {"format": "json"},
        "supervisor": {"backoff_min_s": 0.05, "backoff_max_s": 0.5},
    }
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture
def tideline(config: Path) -> Tideline:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *arguments, "-c", str(config)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def start(config: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def run() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, "run", "-c", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def get(path: str) -> dict[str, Any]:
        address = json.loads((tmp_path / "state" / "http.json").read_text())
        connection = http.client.HTTPConnection(address["host"], address["port"], timeout=10)
        try:
            connection.request("GET", f"/api/v1/{path}")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found
        finally:
            connection.close()

    return get


def until(
    ask: Ask, path: str, condition: Callable[[dict[str, Any]], object], deadline_s: float = 60
) -> dict[str, Any]:
    end = time.monotonic() + deadline_s
    last: object = None
    while time.monotonic() < end:
        try:
            last = answer = ask(path)
            if condition(answer):
                return answer
        except (OSError, ValueError, KeyError) as error:
            last = error
        time.sleep(0.05)
    pytest.fail(f"did not come true in {deadline_s} s; last: {last}")


def test_a_partition_added_at_the_source_is_in_the_answer_over_http(
    source_sql: Session,
    database: str,
    start: Callable[[], subprocess.Popen[str]],
    ask: Ask,
) -> None:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"CREATE TABLE {database}.days (id int) PARTITIONED BY (dt string)")
    source_sql.run(f"ALTER TABLE {database}.days ADD PARTITION (dt='2015-01-01')")
    process = start()
    before = until(ask, f"timelines/{database}.days", lambda a: a["timelines"])
    assert before["timelines"][0]["latest"] == "2015-01-01", before
    source_sql.run(f"CREATE TABLE {database}.hours (id int) PARTITIONED BY (dt string)")
    source_sql.run(
        f"ALTER TABLE {database}.hours ADD PARTITION (dt='2015-01-02-00') PARTITION (dt='2015-01-02-02')"
    )
    question = "timelines/sales/cover?from=2015-01-01&to=2015-01-02-03&where=in"
    answer = until(ask, question, lambda a: a.get("partitions") == 3)
    assert [run["table"] for run in answer["runs"]] == [f"{database}.{t}" for t in ("days", "hours", "hours")]
    assert answer["missing"] == [{"period": "HOURLY", "range": "[2015-01-02-01, 2015-01-02-02)"}]
    assert answer["complete"] is False
    assert answer["event_id"] <= answer["current_event_id"]
    assert answer["where"][f"{database}.hours"] == "(dt IN ('2015-01-02-00','2015-01-02-02'))"
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0, output


def test_the_command_line_on_a_live_daemon_and_on_what_it_left(
    source_sql: Session,
    database: str,
    start: Callable[[], subprocess.Popen[str]],
    ask: Ask,
    tideline: Tideline,
) -> None:
    table = f"{database}.days"
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"CREATE TABLE {table} (id int) PARTITIONED BY (dt string, it string)")
    for day, other in (("2015-01-01", "2015"), ("2015-01-02", "x"), ("2015-01-05", "2016")):
        source_sql.run(f"ALTER TABLE {table} ADD PARTITION (dt='{day}', it='{other}')")
    process = start()
    until(ask, f"timelines/{table}", lambda a: a["timelines"])
    for _ in ("live", "left"):
        shown = tideline("timeline", "show", table).stdout
        assert "2015-01-01 |██··█| 2015-01-05" in shown, shown
        assert "missing 2015-01-03 to 2015-01-04" in shown
        assert "as of event" in shown
        assert table in tideline("timeline", "show").stdout
        covered = tideline("timeline", "cover", table, "2015-01-01", "2015-01-04", "--where", "between")
        assert "missing DAILY [2015-01-03, 2015-01-04)" in covered.stdout, covered
        assert "(dt BETWEEN '2015-01-01' AND '2015-01-02')" in covered.stdout
        strict = tideline("timeline", "cover", table, "2015-01-01", "2015-01-04", "--strict")
        assert (strict.returncode, "[uncoverable]" in strict.stderr) == (1, True), strict
        latest = json.loads(tideline("timeline", "latest", table, "--json").stdout)
        assert latest["latest"] == {"dt": {"period": "DAILY", "value": "2015-01-05"}}
        assert latest["current_event_id"] >= latest["event_id"]
        checked = tideline("timeline", "check", "--json")
        assert checked.returncode == 0, checked
        assert [(one["table"], one["drift"]) for one in json.loads(checked.stdout)] == [(table, [])]
        if process.poll() is None:
            options = ("--column", "dt", "--period", "DAILY", "--json")
            done = tideline("timeline", "migrate", table, *options, "--to", "ranges")
            assert json.loads(done.stdout)["written"] is True, done
            assert ask(f"timelines/{table}")["timelines"][0]["form"] == "ranges"
            assert "is loaded again" in tideline("timeline", "rebuild", table).stdout
            assert ask(f"timelines/{table}")["timelines"][0]["form"] == "ranges", "a rebuild keeps the form"
            assert tideline("timeline", "rebuild", f"{database}.none").returncode == 1
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    source_sql.run(f"ALTER TABLE {table} DROP PARTITION (dt='2015-01-05')")
    drifted = tideline("timeline", "check", table)
    assert (drifted.returncode, "surplus [2015-01-05, 2015-01-06)" in drifted.stdout) == (1, True), drifted
    assert tideline("timeline", "rebuild", table).returncode == 0
    assert tideline("timeline", "check", table).returncode == 0
    done = tideline("timeline", "migrate", table, "--column", "dt", "--period", "DAILY", "--to", "store-all")
    assert "is written as store-all (was ranges)" in done.stdout, done
