"""The forms of the output: text, JSON, YAML and names, and colours on terminals only."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from daemon.service.command_line import call
from daemon.terminal.application import echo, json_option
from daemon.terminal.layout import paint, record_names


ANSWER = {"policy": "shop", "tables": [{"table": "shop.a", "rows": 1}, {"table": "shop.b", "rows": None}]}


@click.command()
@json_option
def show(as_json: bool) -> None:
    echo(ANSWER, as_json, lambda answer: f"{len(answer['tables'])} tables")


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ([], "2 tables\n"),
        (["-o", "wide"], "2 tables\n"),
        (["-o", "name"], "shop.a\nshop.b\n"),
        (["-o", "yaml"], yaml.safe_dump(ANSWER, sort_keys=False)),
        (["-o", "json"], json.dumps(ANSWER, indent=2) + "\n"),
        (["--json"], json.dumps(ANSWER, indent=2) + "\n"),
    ],
)
def test_one_answer_has_five_forms(options: list[str], printed: str) -> None:
    assert CliRunner().invoke(show, options).output == printed


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ([{"name": "a"}, {"key": "b"}], ["a", "b"]),
        (["x", "y"], ["x", "y"]),
        ({"policy": "p", "tables": []}, []),
        ({"policy": "p", "tables": ["x"], "drops": [{"table": "y"}]}, ["y"]),
        ({"version": "1"}, ["1"]),
    ],
)
def test_names_are_those_of_the_records(value: Any, names: list[str]) -> None:
    assert record_names(value) == names
    assert record_names({"a": [{"name": 1}], "b": [{"name": 2}]}, "b") == ["2"]


@pytest.mark.parametrize(
    ("options", "read"),
    [(["-o", "json"], json.loads), (["--json"], json.loads), (["-oyaml"], yaml.safe_load)],
)
def test_errors_have_the_form_of_the_output(
    options: list[str], read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["status", "--nonsense", *options]) == 2
    printed = capsys.readouterr()
    assert read(printed.err)["error"]["code"] == "usage"
    assert printed.out == ""


@pytest.mark.parametrize(
    ("words", "context"),
    [
        (["status", "--nonsense"], {"key": "--nonsense"}),
        (["promote"], {"key": "POLICY"}),
        (["wait", "--replica", "a", "--timeout", "soon"], {"key": "--timeout", "value": "soon"}),
        (["wait", "--replica", "a", "--timeout=soon"], {"key": "--timeout", "value": "soon"}),
        (["frob"], {"key": "COMMAND", "value": "frob"}),
        (["bootstrap", "a", "--reuse-files", "--dry-run"], {}),
        (["bootstrap", "a", "--dry-run", "--url", "http://a:1"], {}),
    ],
)
def test_wrong_usage_as_json_names_option_value_and_reason(
    words: list[str], context: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call([*words, "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    reason = error["context"].pop("reason")
    assert error["context"] == context
    assert reason in error["message"]
    assert "--help' to see the usage." in error["hint"]


def test_states_have_colours_only_on_a_terminal_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "NEEDS AN OPERATOR (1)\nPROJECTION  STATE\nshop  failed\nfailed_orders  following"
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint(text) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert paint(text).split("\n") == [
        "\x1b[31;1mNEEDS AN OPERATOR (1)\x1b[0m",
        "\x1b[1mPROJECTION  STATE\x1b[0m",
        "shop  \x1b[31mfailed\x1b[0m",
        "failed_orders  \x1b[32mfollowing\x1b[0m",
    ]
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint(text) == text


def test_a_command_that_has_no_url_says_where_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["backup", "--help"]) == 0
    assert "Runs on the daemon's machine" in capsys.readouterr().out
    assert call(["backup", "there", "--url", "http://a:1"]) == 2
    assert "'tideline backup' must run on the daemon's machine" in capsys.readouterr().err
    assert call(["pause", "--help"]) == 0
    assert "on the daemon's machine" not in capsys.readouterr().out
