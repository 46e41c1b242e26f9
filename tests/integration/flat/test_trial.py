"""``tideline split try``: a table of a user's own files without configuration."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tideline as readers
from daemon.service.command_line import tideline
from state.errors import ConfigError
from streaming.driver import commands
from streaming.driver.run import Driver
from streaming.settings import FlatSettings
from tests.builders.flat.streams import Stream


START = (int(time.time()) - 400 * 86_400) // 3_600 * 3_600


@pytest.fixture
def try_(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``tideline split try`` in the session of the tests, which has a catalog already."""

    class Commands:
        @staticmethod
        def run(settings: FlatSettings, progress: Callable[[Any], None], *, once: bool) -> None:
            parts = Stream(settings, tmp_path).parts(spark)
            Driver(parts, progress).run(once=once)
            commands._save_snapshot(parts)

    monkeypatch.setattr("daemon.flat.trial.first_try.spark_commands", lambda: Commands)
    return lambda *arguments: CliRunner().invoke(
        tideline, ["split", "try", *map(str, arguments), "--into", str(tmp_path / "made")]
    )


def test_files_and_queries_become_a_table_that_other_engines_read_and_a_page(
    try_: Callable[..., Any], spark: Any, tmp_path: Path
) -> None:
    events: list[dict[str, Any]] = [
        {"sent": START + 20 * n, "uuid": f"{n}", "user": {"id": n, "name": "x"}, "n": n / 2}
        for n in range(200)
    ]
    events[150]["user"]["id"] = "a stray"
    (tmp_path / "old.json").write_text("".join(f"{json.dumps(each)}\n" for each in events) + "no json\n")
    (tmp_path / "report.sql").write_text(
        "select get_json_object(json, '$.user.id'), get_json_object(json, '$.misspelled') from web.raw"
    )
    try:
        done = try_(tmp_path / "old.json", "--queries", tmp_path / "report.sql", "--no-open")
    finally:
        spark.sql("DROP TABLE IF EXISTS default.events")
    assert done.exit_code == 0, done.output
    made = tmp_path / "made"
    assert "201 events in 3 hours by $.sent" in done.output
    assert f"--properties-file {made}/spark.conf" in done.output
    table = readers.open_dataset(made / "table").to_table()
    assert sorted(set(table.column_names) - {"yyyy_mm_dd", "hh"}) == ["_rescued", "sent", "user/id"]
    numbers = [n for n in range(200) if n != 150]
    found = sorted(table["user/id"].drop_null().to_pylist())
    assert found == numbers, "one text does not make the column STRING; directories have any order"
    page = (made / "page.html").read_text()
    assert "user/id" in page
    assert "$.misspelled" in page
    assert "/api/" not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "old.json", "report.sql"]

    again = try_(tmp_path / "old.json")
    assert isinstance(again.exception, ConfigError)
    assert "exists already" in str(again.exception)


def test_what_is_left_out_is_printed_with_the_reason_and_no_file_takes_the_columns_of_another(
    try_: Callable[..., Any], spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(START + 60 * n)) for n in range(40)]
    events = [json.dumps({"at": at, "user": {"id": n, "name": "x"}}) for n, at in enumerate(times)]
    late = json.dumps({"at": "12:30", "user": {"id": 99}})
    lines = ["".join(events[n : n + 4]) for n in range(0, 40, 4)]
    (tmp_path / "at 12:00.json").write_text("\n".join([*lines, late, ""]))
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "whole.sql").write_text("select get_json_object(json, '$.user') from web.raw")
    (reports / "member.sql").write_text("select get_json_object(json, '$.user.id') from web.raw")
    (reports / "typo.sql").write_text("select get_json_object(json, '$.usr') from web.raw")
    (reports / "other.sql").write_text("select 1 from other")
    try:
        done = try_(tmp_path / "at 12:00.json", "--queries", reports, "--no-open")
    finally:
        spark.sql("DROP TABLE IF EXISTS default.events")
    assert done.exit_code == 0, done.output
    made = tmp_path / "made"
    table = readers.open_dataset(made / "table").to_table()
    assert sorted(table["user/id"].to_pylist()) == list(range(40))
    assert table["user"].drop_null().length() == 40
    assert "1 wrong-time (the time is missing, has another form" in done.output
    assert f"for example: {late}" in done.output
    assert "$.usr: no row contains it" in done.output
    assert f"{reports}/other.sql: reads no key of json in web.raw" in done.output

    (made / "queries" / "further.sql").write_text("select get_json_object(json, '$.user.name') from web.raw")
    monkeypatch.setattr("daemon.flat.driver.run_driver", lambda order, *_, **__: order())
    arguments = ("events", "-c", str(made / "tideline.yaml"))
    again = CliRunner().invoke(tideline, ["split", "run", *arguments, "--once"])
    assert again.output == "queries read: 1\n", "only the new file"
    assert "$.user.name" in CliRunner().invoke(tideline, ["keys", "list", *arguments, "--why"]).output


def test_a_try_without_any_event_left_fails_and_shows_why(
    try_: Callable[..., Any], spark: Any, tmp_path: Path
) -> None:
    lines = [json.dumps({"at": 4_000_000_000 + n, "uuid": f"{n}"}) for n in range(30)]
    (tmp_path / "future.json").write_text("\n".join(lines))
    try:
        done = try_(tmp_path / "future.json", "--no-open")
    finally:
        spark.sql("DROP TABLE IF EXISTS default.events")
    assert done.exit_code == 1, done.output
    assert "30 wrong-time" in done.output
    assert '"at": 4000000' in done.output
    assert "no valid event remains: $.at was read as 's'" in done.output
