"""``tideline keys``: what people are told about the keys of a flat table, and what they save_decision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from daemon.flat.settings import FlatConfig
from daemon.keylog.answers import read_keys, save_decision
from daemon.keylog.opening import key_log_address, key_log_url
from daemon.keys.text import keys_text
from daemon.service.command_line import call
from daemon.service.configuration import config_reader
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.errors import ConfigError
from streaming.keylog.log import KeyLog
from streaming.keylog.table_snapshots import TableSnapshot, save_snapshot
from tests.builders.keylog.key_logs import FLAT, NOW_S, RAW, key_request, open_key_log


CONFIG = """\
state: {{dir: {directory}}}
flat:
  web:
    table: web.events_flat
    raw_table: web.raw_events
    rules: {{whitelist: [epoch], skip: ["$.debug.*"], pins: {{user.id: bigint}}}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tideline.yaml"
    path.write_text(CONFIG.format(directory=tmp_path))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeyLog]:
    with open_key_log(f"sqlite:///{tmp_path}/keylog.db") as opened_log:
        opened_log.record(
            [
                *(
                    key_request("action.name", user=user, days_ago=day)
                    for user in ("ann", "bob")
                    for day in range(3)
                ),
                *(key_request(f"action.exp.exp_{n}", user="ann") for n in range(12)),
                key_request("debug.trace", count=1_000),
                key_request("old.key", days_ago=100),
            ],
            source="history",
            position="p",
        )
        yield opened_log


def flat(**rules: Any) -> FlatConfig:
    return FlatConfig.model_validate({"table": FLAT, "raw_table": RAW, "rules": rules})


def by_key(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in answer["keys"]}


def save_driver_snapshot(log: KeyLog, *, at_s: int = NOW_S) -> None:
    document = {
        "columns": [
            {"key": None, "name": "_rescued", "type": "string", "state": "reserved"},
            {"key": "$.action.name", "name": "action/name", "type": "string", "state": "live", "fill": 0.5},
            {"key": "$.gone", "name": "gone", "type": "int", "state": "empty"},
        ],
        "keys": [
            {"key": "$.action.name", "verdict": "selected", "reason": "rank 1: 2 users on 3 days", "rank": 1},
            {"key": "$.action.exp", "verdict": "selected", "reason": "rank 2: 1 user", "rank": 2},
            {"key": "$.old.key", "verdict": "unseen", "reason": "no row has brought it", "rank": None},
        ],
        "waiting": [{"key": "$.action.exp", "kind": "wait", "reason": "12 of 1000 values"}],
    }
    save_snapshot(log, TableSnapshot(FLAT, 3, at_s, document))


def test_without_a_driver_the_rules_give_the_reasons(log: KeyLog) -> None:
    answer = read_keys(log, flat(whitelist=["epoch"], skip=["$.debug.*"]).keyed())
    rows = by_key(answer)
    assert (answer["reasons_from"], answer["requested"]) == ("rules", 14)
    assert [row["key"] for row in answer["keys"][:3]] == ["$.epoch", "$.action.name", "$.action.exp"]
    assert rows["$.action.exp"]["users"] == ["ann"]
    assert len(rows["$.action.exp"]["serves"]) == 12
    assert rows["$.action.exp.exp_3"]["verdict"] == "collapsed"
    assert rows["$.action.exp.exp_3"]["into"] == "$.action.exp"
    assert rows["$.debug.trace"]["verdict"] == "skipped"
    assert rows["$.old.key"]["verdict"] == "not requested"
    assert "last queried on" in rows["$.old.key"]["reason"]


def test_a_column_that_is_about_to_be_promoted_does_not_show_as_waiting(log: KeyLog) -> None:
    name = {"key": "$.action.name", "name": "action/name", "type": "int", "state": "live", "fill": 0.5}
    task = {"key": "$.action.name", "kind": "harden", "reason": "100 of 200 values do not fit int"}
    save_snapshot(log, TableSnapshot(FLAT, 3, NOW_S, {"columns": [name], "waiting": [task]}))
    row = by_key(read_keys(log, flat().keyed()))["$.action.name"]
    assert (row["verdict"], row["column"], row["reason"]) == ("promoting", "action/name", task["reason"])


def test_reasons_of_the_driver_take_precedence(log: KeyLog) -> None:
    save_driver_snapshot(log)
    rows = by_key(read_keys(log, flat().keyed()))
    assert rows["$.action.name"]["column"] == "action/name"
    assert rows["$.action.name"]["fill"] == 0.5
    assert (rows["$.action.exp"]["verdict"], rows["$.action.exp"]["reason"]) == (
        "waiting",
        "12 of 1000 values",
    )
    assert rows["$.old.key"]["verdict"] == "unseen"
    assert "$.gone" not in rows


def test_a_decision_after_the_drivers_snapshot_takes_effect_at_once(log: KeyLog) -> None:
    save_driver_snapshot(log, at_s=NOW_S - 1)
    save_decision(log, flat().keyed(), "skip", "$.action.*", None, "ann", remove=False)
    answer = read_keys(log, flat().keyed())
    assert answer["reasons_from"] == "rules"
    assert by_key(answer)["$.action.name"]["verdict"] == "skipped"
    assert by_key(answer)["$.action.name"]["column"] == "action/name"
    assert "with later decisions" in keys_text(answer, why=True, limit=10)


def test_a_contradictory_decision_is_not_stored(log: KeyLog) -> None:
    tight = flat(columns_max=1, whitelist=["epoch"])
    with pytest.raises(ConfigError):
        save_decision(log, tight.keyed(), "always", KeyPath(("other",)), None, "ann", remove=False)
    assert by_key(read_keys(log, tight.keyed()))["$.epoch"]["verdict"] == "whitelisted"


def test_keys_are_shown_without_control_characters_and_within_a_limit(log: KeyLog) -> None:
    log.record([key_request(user="eve\x1b[31m")], source="s", position=None)
    log.record([replace(key_request(), key=KeyPath(("a\x1b[2J\nb",)))], source="s", position=None)
    text = keys_text(read_keys(log, flat().keyed()), why=True, limit=5)
    assert "\x1b" not in text
    assert "more keys: --limit, or --json" in text


def test_the_commands_work_on_the_configured_database(
    config: Path, log: KeyLog, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        assert call(["keys", *arguments, "-c", str(config)]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    assert "debug.trace" not in run("list", "web")
    assert "matches a pattern of the skip list" in run("list", "web", "--why")
    assert json.loads(run("list", FLAT, "--json"))["table"] == FLAT
    assert "is stored" in run("pin", "web", "action.name", "string")
    assert "is stored" in run("whitelist", "web", "$.session")
    refused = run("whitelist", "web", "$.w.*", code=1)
    assert "array subscript or a wildcard" in refused
    assert "Use $.w: " in refused
    assert "Use $.w.x: " in run("pin", "web", "$.w.x[0]", "int", code=1)
    assert "is stored" in run("skip", "web", "$.action.exp*")
    rules = run("rules", "web")
    assert "configuration" in rules
    assert "$.session" in rules
    assert "is removed" in run("unpin", "web", "action.name")
    assert "was not stored" in run("whitelist", "web", "nothing", "--remove")
    assert "ann" in run("log", "--key", "action.name", "--days", "3650")
    assert json.loads(run("log", "--user", "nobody", "--json"))["entries"] == []
    assert "would be deleted" in run("forget", "--dry-run", "--days", "1")
    assert "unknown flat table" in run("list", "nope", code=1)


def test_the_section_has_every_rule_with_its_default() -> None:
    assert FlatConfig(table=FLAT, raw_table=RAW).rules == FlatRules()
    written = FlatConfig(table=FLAT, raw_table=RAW).model_dump()["rules"]
    assert set(written) == set(FlatRules.__dataclass_fields__)
    assert FlatConfig(table=FLAT, raw_table=RAW, rules=written).rules == FlatRules()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("keylog: {url: 'mysql://u:hunter2@db/keys'}", "must not contain a password"),
        ("keylog: {url: 'oracle://db/keys'}", "must be the address of a key log"),
        ("flat: {web: {table: a.b, raw_table: a.c, rules: {empty_days: 1}}}", "reused"),
        ("flat: {web: {table: a.b, raw_table: a.c, rules: {whitelist: ['$']}}}", "must be a key"),
        ("flat: {web: {table: a.b, raw_table: a.c, rules: {pins: {k: text}}}}", "must be "),
    ],
)
def test_wrong_settings_are_reported(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text(text)
    (problem,) = config_reader().read(path, {}).problems
    assert reason in problem.reason
    assert "hunter2" not in str(problem)


def test_the_password_is_a_secret_that_logs_mask(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2-hunter2\n")
    path = tmp_path / "tideline.yaml"
    path.write_text(f"keylog: {{url: 'postgresql://u@db/keys', password: {{file: {tmp_path}/secret}}}}")
    loaded = config_reader().read(path, {}).config
    assert loaded is not None
    assert loaded.secrets() == ("hunter2-hunter2",)
    assert key_log_url(loaded) == "postgresql://u@db/keys"
    assert "hunter2" not in repr(key_log_address(loaded))
    assert key_log_address(loaded).get_secret_value().endswith("://u:hunter2-hunter2@db/keys")


MINING = """\
state: {{dir: {directory}}}
mining:
  raw_tables: {{web.raw_events: {{json_column: json}}}}
  functions: {{event_parser: {{style: dotted}}}}
  sources:
    reports: {{kind: sql-files, path: "file:{directory}/reports", user: reporting}}
    jobs: {{kind: job-history, path: "file:{directory}/none"}}
flat:
  web: {{table: web.events_flat, raw_table: web.raw_events}}
"""


def test_queries_are_mined_into_the_key_log_although_another_source_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text(MINING.format(directory=tmp_path))
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "explorer.sql").write_text(
        "select p.* from web.raw_events e lateral view event_parser(e.json, 'action.name', 'user.id') p as "
        "a, b;"
    )

    def run(*arguments: str, code: int = 0) -> Any:
        assert call(["keys", *arguments, "--json", "-c", str(path)]) == code
        return json.loads(capsys.readouterr().out)

    jobs, reports = sorted(run("mine", code=1), key=lambda row: str(row["source"]))
    assert "not-found" in jobs["error"]
    assert (reports["queries"], reports["requests"], reports["error"]) == (1, 2, None)
    assert run("mine", "reports")[0]["queries"] == 0
    stdin = TextIOWrapper(BytesIO(b"select get_json_object(json, '$.user.id') from web.raw_events;\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run("mine", "--stdin", "--user", "ann")[0]["requests"] == 1
    rows = by_key(run("list", "web"))
    assert rows["$.user.id"]["users"] == ["ann", "reporting"]
    assert rows["$.action.name"]["users"] == ["reporting"]
    assert call(["keys", "mine", "--config", str(path)]) == 1
    assert "jobs: failed: [not-found]" in capsys.readouterr().out
    assert call(["keys", "mine", "nobody", "-c", str(path)]) == 1
    assert "unknown query source" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mining: {sources: {s: {kind: trino}}}", "must have a topic"),
        ("mining: {sources: {s: {kind: sql-files}}}", "must have a path"),
        ("mining: {sources: {s: {kind: trino, topic: t}}}", "must be set if there is a source"),
        ("mining: {raw_tables: {raw: {json_column: j}}}", "must be a table"),
        (
            "{keylog: {retention_days: 7}, flat: {f: {table: a.f, raw_table: a.r}}}",
            "at least flat.f.rules.requested_days = 30",
        ),
        (
            "flat: {f: {table: a.f, raw_table: a.r, rules: {requested_days: 500}}}",
            "at least flat.f.rules.requested_days = 500",
        ),
        (
            "{mining: {raw_tables: {a.raw: {json_column: j}}}, flat: {f: {table: a.f, raw_table: a.rwa}}}",
            "must be one of mining.raw_tables",
        ),
    ],
)
def test_wrong_settings_of_mining_are_reported(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text(text)
    assert any(reason in problem.reason for problem in config_reader().read(path, {}).problems)
