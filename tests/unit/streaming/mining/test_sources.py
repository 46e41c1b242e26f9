from __future__ import annotations

import io
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pytest

from daemon.keys.text import passes_text
from handlers.files.systems.schemes import open_file_systems
from state.errors import BadInput, ConfigError, NotFound, StateCorrupt, TidelineError
from streaming.mining.miner import Miner, MiningReport, mine
from streaming.mining.model import CustomFunction, MiningRules, Parser, RawTable
from streaming.mining.sources.directory import Directory
from streaming.mining.sources.job_history import JobHistorySource, parse_properties
from streaming.mining.sources.source import QueryBatch, QuerySource
from streaming.mining.sources.spark_event_log import SparkEventLogSource
from streaming.mining.sources.sql_files import DAY_S, SqlFilesSource
from streaming.mining.sources.standard_input import StandardInputSource
from tests.builders.keylog.mining import RULES, MemorySink


PASS = {
    "source": "stdin",
    "queries": 1,
    "queries_with_keys": 0,
    "requests": 0,
    "unresolved": {},
    "took_s": 0.1,
    "error": None,
}
QUERY = "select get_json_object(json, '$.{}') from raw_events"


def tree(directory: Path) -> Directory:
    return Directory.open(str(directory), open_file_systems())


def run(source: QuerySource, sink: MemorySink) -> MiningReport:
    return mine(source, Miner(RULES), sink)


def conf(text: str, **more: str) -> str:
    values = {"hive.query.string": text, "mapreduce.job.user.name": "ann", **more}
    escaped = {name: value.replace("&", "&amp;").replace("<", "&lt;") for name, value in values.items()}
    inner = "".join(f"<property><name>{n}</name><value>{v}</value></property>\n" for n, v in escaped.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{inner}</configuration>'


# -- job history


def write_conf(directory: Path, number: int, document: str) -> Path:
    path = directory / f"2016/04/18/000000/job_1_{number:04}_conf.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document)
    return path


def test_job_history_gives_query_user_and_time_of_each_job_once(tmp_path: Path) -> None:
    path = write_conf(tmp_path, 1, conf(QUERY.format("a") + " where x < 5 and y = '&'"))
    os.utime(path, (1_461_000_000, 1_461_000_000))
    (path.parent / "job_1_0001.jhist").write_text("Avro-Json")
    sink, source = MemorySink(), JobHistorySource("history", tree(tmp_path))
    assert run(source, sink).queries == 1
    (each,) = sink.requests
    assert (each.raw_table, each.key.text, each.user, each.at_s) == (
        "default.raw_events",
        "$.a",
        "ann",
        1_461_000_000,
    )
    write_conf(tmp_path, 2, conf(QUERY.format("b")))
    assert run(source, sink).queries == 1
    assert sink.keys() == ["$.a", "$.b"]
    assert run(source, sink).queries == 0


def test_the_jobs_of_one_query_count_once(tmp_path: Path) -> None:
    for number in range(3):
        write_conf(tmp_path, number, conf(QUERY.format("a"), **{"hive.query.id": "ann_2016"}))
    sink = MemorySink()
    assert run(JobHistorySource("history", tree(tmp_path)), sink).queries == 1


def test_an_encoded_query_is_decoded(tmp_path: Path) -> None:
    write_conf(tmp_path, 1, conf(quote_plus(QUERY.format("a b"))))
    sink = MemorySink()
    run(JobHistorySource("history", tree(tmp_path)), sink)
    assert sink.keys() == ["$.a b"]


def test_the_current_database_of_a_job_applies_to_its_query(tmp_path: Path) -> None:
    write_conf(
        tmp_path,
        1,
        conf("select get_json_object(doc, '$.a') from clicks", **{"hive.current.database": "web"}),
    )
    sink = MemorySink()
    run(JobHistorySource("history", tree(tmp_path)), sink)
    assert [each.raw_table for each in sink.requests] == ["web.clicks"]


LAUGHS = '<!DOCTYPE c [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><configuration>&b;</configuration>'
HOSTILE = [
    LAUGHS,
    '<!DOCTYPE c SYSTEM "file:///etc/passwd"><configuration/>',
    "<configuration><property>",
    "",
    "no xml",
    "<a>" * 100,
]


@pytest.mark.parametrize("document", HOSTILE)
def test_a_hostile_configuration_is_refused(document: str) -> None:
    with pytest.raises(BadInput):
        parse_properties(document.encode())


def test_a_broken_job_is_dead_and_does_not_hide_others(tmp_path: Path) -> None:
    for number, document in enumerate([*HOSTILE, conf("x" * 5_000), conf(QUERY.format("a"))]):
        write_conf(tmp_path, number, document)
    sink = MemorySink()
    report = run(JobHistorySource("history", tree(tmp_path), file_bytes=4_000), sink)
    assert report.dead == {"bad-input": len(HOSTILE), "limit-exceeded": 1}
    assert sink.keys() == ["$.a"]
    assert run(JobHistorySource("history", tree(tmp_path), file_bytes=4_000), sink).dead == {}


# -- Spark's event logs


def started(number: int, plan: str, **more: Any) -> dict[str, Any]:
    return {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": number,
        "description": "collect at job.py:4",
        "physicalPlanDescription": plan,
        "time": 1_461_000_000_123,
        **more,
    }


def plan(key: str) -> str:
    scan = "(1) Scan orc spark_catalog.default.raw_events\nOutput [1]: [json#7]\n"
    return f"{scan}\n(2) Project\nOutput [1]: [get_json_object(json#7, $.{key}) AS x#8]\n"


APPLICATION = {"Event": "SparkListenerApplicationStart", "App Name": "x", "User": "bob"}


def lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def test_reading_of_a_growing_log_continues_after_its_last_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "app-1.inprogress"
    second = lines(started(1, plan("b")))
    log.write_text(lines(APPLICATION, started(0, plan("a"))) + second[:100])
    sink, source = MemorySink(), SparkEventLogSource("spark", tree(tmp_path))
    assert run(source, sink).queries == 1
    log.write_text(log.read_text() + second[100:])
    log.rename(tmp_path / "app-1")
    assert run(source, sink).queries == 1
    assert [(each.key.text, each.user, each.at_s) for each in sink.requests] == [
        ("$.a", "bob", 1_461_000_000),
        ("$.b", "bob", 1_461_000_000),
    ]
    assert run(source, sink).queries == 0


def test_every_prefix_of_a_log_leads_to_the_same_result(tmp_path: Path) -> None:
    text = lines(
        APPLICATION, started(0, plan("a")), {"Event": "Other"}, started(1, plan("b")), started(2, plan("c"))
    )
    for cut in range(0, len(text), 97):
        sink, source = MemorySink(), SparkEventLogSource("spark", tree(tmp_path))
        (tmp_path / "app").write_text(text[:cut])
        run(source, sink)
        (tmp_path / "app").write_text(text)
        run(source, sink)
        assert [each.key.text for each in sink.requests] == ["$.a", "$.b", "$.c"]


def test_a_rolling_log_is_one_application_and_zstd_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "eventlog_v2_app-1"
    directory.mkdir()
    (directory / "appstatus_app-1").touch()
    for number, text in enumerate([lines(APPLICATION), lines(started(0, plan("a")))], 1):
        compressed = pa.compress(text.encode(), codec="zstd", asbytes=True)
        (directory / f"events_{number}_app-1.zstd").write_bytes(compressed)
    sink = MemorySink()
    run(SparkEventLogSource("spark", tree(tmp_path)), sink)
    assert [(each.key.text, each.user) for each in sink.requests] == [("$.a", "bob")]


def test_a_log_that_grows_far_more_than_logs_do_is_dead_and_is_not_read_again(tmp_path: Path) -> None:
    text = lines(started(0, plan("a"))) + ("x" * 1_000_000 + "\n") * 80
    compressed = pa.compress(text.encode(), codec="zstd", asbytes=True)
    assert len(compressed) < 50_000
    (tmp_path / "app-1.zstd").write_bytes(compressed)
    sink = MemorySink()
    source = SparkEventLogSource("events", tree(tmp_path))
    report = run(source, sink)
    assert [each.key.text for each in sink.requests] == ["$.a"]
    assert report.dead == {"limit-exceeded": 1}
    assert not run(source, sink).dead


def test_an_event_with_too_many_values_is_dead_and_is_not_parsed(tmp_path: Path) -> None:
    event = '{"Event":"SparkListenerSQLExecutionStart","x":[' + "[]," * 1_000_000 + "[]]}\n"
    (tmp_path / "app-1").write_text(event + lines(started(0, plan("a"))))
    sink = MemorySink()
    report = run(SparkEventLogSource("events", tree(tmp_path)), sink)
    assert report.dead == {"limit-exceeded": 1}
    assert [each.key.text for each in sink.requests] == ["$.a"]


def test_a_statement_in_the_description_is_mined_too(tmp_path: Path) -> None:
    (tmp_path / "app").write_text(lines(started(0, "no plan", description="-- x\n" + QUERY.format("s"))))
    sink = MemorySink()
    assert run(SparkEventLogSource("spark", tree(tmp_path)), sink).queries == 2
    assert sink.keys() == ["$.s"]


def test_an_adaptive_plan_counts_only_if_the_first_one_is_missing(tmp_path: Path) -> None:
    update = {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate"}
    events = [
        started(0, plan("a")),
        update | {"executionId": 0, "physicalPlanDescription": plan("a")},
        update | {"executionId": 1, "physicalPlanDescription": plan("b")},
    ]
    (tmp_path / "app").write_text(lines(*events))
    sink = MemorySink()
    assert run(SparkEventLogSource("spark", tree(tmp_path)), sink).queries == 2
    assert sink.keys() == ["$.a", "$.b"]


def test_unreadable_lines_and_codecs_are_dead_and_the_rest_is_read(tmp_path: Path) -> None:
    bad = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", broken\n'
    no_plan = {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"}
    long = json.dumps(started(0, "x" * 5_000)) + "\n"
    (tmp_path / "a").write_text(bad + lines(no_plan) + long + lines(started(1, plan("a"))))
    (tmp_path / "b.lz4").write_text("x")
    sink = MemorySink()
    report = run(SparkEventLogSource("spark", tree(tmp_path), line_bytes=2_000), sink)
    assert report.dead == {"bad-input": 2, "limit-exceeded": 1, "unsupported": 1}
    origins = [each.origin for each in report.dead_inputs]
    assert origins == ["a, byte 0", f"a, byte {len(bad)}", f"a, byte {len(bad + lines(no_plan))}", "b.lz4"]
    assert sink.keys() == ["$.a"]


# -- SQL files


def test_an_existing_file_counts_once_a_day(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "daily.sql").write_text(QUERY.format("a"))
    (tmp_path / "readme.md").write_text(QUERY.format("no"))
    now = [1_461_000_000.0]
    sink, source = MemorySink(), SqlFilesSource("files", tree(tmp_path), "reports", clock=lambda: now[0])
    assert [run(source, sink).queries for _ in range(2)] == [1, 0]
    now[0] += DAY_S
    assert run(source, sink).queries == 1
    assert {(each.user, each.key.text) for each in sink.requests} == {("reports", "$.a")}
    assert [each.at_s for each in sink.requests] == [1_461_000_000, 1_461_000_000 + DAY_S]


def test_python_files_are_read_as_programs(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        'spark.table("raw_events").select(F.get_json_object(F.col("json"), "$.a"))'
    )
    sink, source = MemorySink(), SqlFilesSource("files", tree(tmp_path))
    assert run(source, sink).parsers == {Parser.PYTHON: 1}
    assert sink.keys() == ["$.a"]


def test_files_that_are_not_standing_count_when_they_change(tmp_path: Path) -> None:
    file = tmp_path / "q.hql"
    file.write_text(QUERY.format("a"))
    os.utime(file, (1_461_000_000, 1_461_000_000))
    sink, source = MemorySink(), SqlFilesSource("files", tree(tmp_path), is_standing=False)
    assert [run(source, sink).queries for _ in range(2)] == [1, 0]
    os.utime(file, (1_461_000_009, 1_461_000_009))
    run(source, sink)
    assert [each.at_s for each in sink.requests] == [1_461_000_000, 1_461_000_009]


# -- standard input


def requested_keys(text: str) -> tuple[list[QueryBatch], MemorySink, MiningReport]:
    sink = MemorySink()
    report = run(StandardInputSource("stdin", io.BytesIO(text.encode()), "me", clock=lambda: 5.0), sink)
    return list(StandardInputSource("stdin", io.BytesIO(text.encode())).batches(None)), sink, report


def test_statements_of_standard_input_end_with_a_semicolon_at_the_end_of_a_line() -> None:
    _, sink, report = requested_keys(
        QUERY.format("a") + ";\n\n" + QUERY.format("b").replace(" from", "\nfrom")
    )
    assert report.queries == 2
    assert [(each.key.text, each.user, each.at_s) for each in sink.requests] == [
        ("$.a", "me", 5),
        ("$.b", "me", 5),
    ]
    assert sink.positions == {}


def test_json_lines_of_standard_input_contain_user_time_and_form() -> None:
    given: list[dict[str, Any]] = [
        {"query": QUERY.format("a"), "user": "ann", "at": 77},
        {"query": plan("p"), "form": "plan"},
        {"query": "select get_json_object(doc, '$.d') from clicks", "database": "web"},
    ]
    _, sink, _ = requested_keys(lines(*given))
    assert [(each.key.text, each.user, each.at_s) for each in sink.requests] == [
        ("$.a", "ann", 77),
        ("$.p", "me", 5),
        ("$.d", "me", 5),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        '{"query": 1}',
        '{"query": "x", "at": "no"}',
        '{"query": "x", "form": "no"}',
        '{"query": "x", "user": 1}',
    ],
)
def test_a_line_that_is_not_a_query_is_dead(line: str) -> None:
    _, sink, report = requested_keys('{"query": "x"}\n' + line + "\n" + lines({"query": QUERY.format("a")}))
    assert (report.dead, sink.keys()) == ({"bad-input": 1}, ["$.a"])
    assert [each.origin for each in report.dead_inputs] == ["line 2"]


def test_a_dead_query_is_shown_with_its_line_and_reason() -> None:
    _, _, report = requested_keys('{"query": "x"}\n{"query": "x", "at": "2016-04-18"}\n')
    (dead,) = report.dead_inputs
    shown = passes_text([{**PASS, "dead": dict(report.dead), "dead_inputs": [asdict(dead)]}])
    assert shown.splitlines()[-1].startswith("stdin: dead: line 2: [bad-input] a line must be a query")
    assert "'at' must be seconds since 1970" in shown


# -- the loop


def test_queries_that_could_not_be_recorded_are_mined_again(tmp_path: Path) -> None:
    for number in range(3):
        write_conf(tmp_path, number, conf(QUERY.format(f"k{number}"), **{"hive.query.id": str(number)}))
    sink, source = MemorySink(), JobHistorySource("history", tree(tmp_path))
    sink.failing = TidelineError("the database is away")
    with pytest.raises(TidelineError):
        run(source, sink)
    assert run(source, sink).queries == 3
    assert sink.keys() == ["$.k0", "$.k1", "$.k2"]


def test_equal_requests_of_a_batch_are_counted_together(tmp_path: Path) -> None:
    _, sink, report = requested_keys((QUERY.format("a") + ";\n") * 3)
    assert [(each.key.text, each.count) for each in sink.requests] == [("$.a", 3)]
    assert (report.queries, report.queries_with_keys, report.key_requests) == (3, 3, 3)


def test_mining_stops_between_batches_on_request() -> None:
    text = (QUERY.format("a") + ";\n") * 2_500
    sink = MemorySink()
    mine(StandardInputSource("stdin", io.BytesIO(text.encode())), Miner(RULES), sink, is_stopped=lambda: True)
    assert sink.batches == 1


@pytest.mark.parametrize(
    "position", ["", "[]", "{}", '{"files": {"a": [1]}}', '{"files": {"a": ["x", 1, "", 0]}}', "null"]
)
def test_an_invalid_position_stops_the_source(position: str, tmp_path: Path) -> None:
    sink = MemorySink()
    sink.positions["s"] = position
    for source in (
        JobHistorySource("s", tree(tmp_path)),
        SparkEventLogSource("s", tree(tmp_path)),
        SqlFilesSource("s", tree(tmp_path)),
    ):
        with pytest.raises(StateCorrupt):
            run(source, sink)


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(JobHistorySource("s", tree(tmp_path / "absent")), MemorySink())


@pytest.mark.parametrize("name", ["raw_events", "a.b.c", "Default.Raw", ".x", ""])
def test_a_raw_table_needs_its_full_name(name: str) -> None:
    with pytest.raises(ConfigError):
        RawTable(name, "json")


def test_rules_require_tables_with_distinct_names() -> None:
    with pytest.raises(ConfigError):
        MiningRules(())
    with pytest.raises(ConfigError):
        MiningRules((RawTable("a.b", "json"), RawTable("a.b", "doc")), (CustomFunction("f"),))
