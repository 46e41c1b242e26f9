"""From ADD_PARTITION on a real source to an answer over HTTP, through a running daemon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.catalog.followed_catalog import catalog_settings
from tests.builders.daemon.http_client import Api
from tests.builders.daemon.tideline_process import daemon, ended, tideline, write_config


Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def config(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> Path:
    rules = {"all": {"tables": [f"{database}.*"], "columns": ["dt"]}}
    facts = {"sales": {"source": "lake", "tables": {f"{database}.days": {}, f"{database}.hours": {}}}}
    return write_config(tmp_path, {**catalog_settings(stack, topic, {"rules": rules}), "facts": facts})


@pytest.fixture
def start(config: Path) -> Iterator[Start]:
    """Starts the daemon when the source has what it is to find."""
    with ExitStack() as started:
        yield lambda: started.enter_context(daemon(config))


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path / "state", "timelines")


def test_a_partition_added_at_the_source_is_in_the_answer_over_http(
    source_sql: Session,
    database: str,
    start: Start,
    api: Api,
) -> None:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"CREATE TABLE {database}.days (id int) PARTITIONED BY (dt string)")
    source_sql.run(f"ALTER TABLE {database}.days ADD PARTITION (dt='2015-01-01')")
    process = start()
    before = api.until(f"{database}.days", lambda a: a["timelines"])
    assert before["timelines"][0]["latest"] == "2015-01-01", before
    source_sql.run(f"CREATE TABLE {database}.hours (id int) PARTITIONED BY (dt string)")
    source_sql.run(
        f"ALTER TABLE {database}.hours ADD PARTITION (dt='2015-01-02-00') PARTITION (dt='2015-01-02-02')"
    )
    asked = {"from": "2015-01-01", "to": "2015-01-02-03", "where": "in"}
    answer = api.until("sales/cover", lambda a: a.get("partitions") == 3, **asked)
    assert [run["table"] for run in answer["runs"]] == [f"{database}.{t}" for t in ("days", "hours", "hours")]
    assert answer["missing"] == [{"period": "HOURLY", "range": "[2015-01-02-01, 2015-01-02-02)"}]
    assert answer["complete"] is False
    assert answer["event_id"] <= answer["current_event_id"]
    assert answer["where"][f"{database}.hours"] == "(dt IN ('2015-01-02-00','2015-01-02-02'))"
    ended(process)


@pytest.mark.long
def test_the_command_line_works_on_a_live_daemon_and_on_its_state_file(
    source_sql: Session,
    database: str,
    start: Start,
    api: Api,
    config: Path,
) -> None:
    table = f"{database}.days"
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"CREATE TABLE {table} (id int) PARTITIONED BY (dt string, it string)")
    for day, other in (("2015-01-01", "2015"), ("2015-01-02", "x"), ("2015-01-05", "2016")):
        source_sql.run(f"ALTER TABLE {table} ADD PARTITION (dt='{day}', it='{other}')")
    process = start()
    api.until(table, lambda a: a["timelines"])
    for _ in ("live", "left"):
        shown = tideline(config, "timeline", "show", table).stdout
        assert "2015-01-01 |██··█| 2015-01-05" in shown, shown
        assert "missing 2015-01-03 to 2015-01-04" in shown
        assert "as of event" in shown
        assert table in tideline(config, "timeline", "show").stdout
        covered = tideline(
            config, "timeline", "cover", table, "2015-01-01", "2015-01-04", "--where", "between"
        )
        assert "missing DAILY [2015-01-03, 2015-01-04)" in covered.stdout, covered
        assert "(dt BETWEEN '2015-01-01' AND '2015-01-02')" in covered.stdout
        strict = tideline(config, "timeline", "cover", table, "2015-01-01", "2015-01-04", "--strict")
        assert (strict.returncode, "[uncoverable]" in strict.stderr) == (1, True), strict
        latest = json.loads(tideline(config, "timeline", "latest", table, "--json").stdout)
        assert latest["latest"] == {"dt": {"period": "DAILY", "value": "2015-01-05"}}
        assert latest["current_event_id"] >= latest["event_id"]
        checked = tideline(config, "timeline", "check", "--json")
        assert checked.returncode == 0, checked
        assert [(one["table"], one["drift"]) for one in json.loads(checked.stdout)] == [(table, [])]
        if process.poll() is None:
            options = ("--column", "dt", "--period", "DAILY", "--json")
            done = tideline(config, "timeline", "migrate", table, *options, "--to", "ranges")
            assert json.loads(done.stdout)["written"] is True, done
            assert api.get(table)["timelines"][0]["form"] == "ranges"
            assert "is loaded again" in tideline(config, "timeline", "rebuild", table).stdout
            assert api.get(table)["timelines"][0]["form"] == "ranges", "a rebuild keeps the form"
            assert tideline(config, "timeline", "rebuild", f"{database}.none").returncode == 1
            ended(process)
    source_sql.run(f"ALTER TABLE {table} DROP PARTITION (dt='2015-01-05')")
    drifted = tideline(config, "timeline", "check", table)
    assert (drifted.returncode, "surplus [2015-01-05, 2015-01-06)" in drifted.stdout) == (1, True), drifted
    assert tideline(config, "timeline", "rebuild", table).returncode == 0
    assert tideline(config, "timeline", "check", table).returncode == 0
    done = tideline(
        config, "timeline", "migrate", table, "--column", "dt", "--period", "DAILY", "--to", "store-all"
    )
    assert "now has the form store-all (before: ranges)" in done.stdout, done
