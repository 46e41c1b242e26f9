"""Rows of benchmarks are judged by their limits and compared with their rivals."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from bench.report import TIMES, Row, main, median_s, row


@pytest.mark.parametrize(("value", "ok"), [(9.0, True), (10.0, True), (11.0, False)])
def test_less_is_better_up_to_a_limit(value: float, ok: bool) -> None:
    judged = row("case", value, "µs", at_most=10, rival=("set", 90.0))
    assert (judged.ok, judged.limit) == (ok, "≤ 10")
    assert judged.ratio == pytest.approx(90 / value, rel=1e-3)


def test_more_is_better_from_a_limit_on() -> None:
    judged = row("case", 500.0, "events/s", at_least=1000, rival=("other", 250.0))
    assert (judged.ok, judged.ratio) == (False, 2.0)


def test_a_ratio_to_the_rival_can_be_the_limit() -> None:
    assert row("case", 1.0, "s", times=5, rival=("other", 6.0)).ok
    assert row("case", 1.0, "s", times=5, rival=("other", 4.0)).ok is False
    assert row("case", 1.0, "s", times=5).ok is False, "no rival, no ratio"


def test_a_row_without_a_limit_is_not_judged() -> None:
    assert row("case", 1.23456, "s") == Row(case="case", value=1.235, unit="s")


@pytest.mark.parametrize(("limit", "code"), [(1.0, 0), (0.1, 1)])
def test_the_report_is_one_json_object_and_a_missed_limit_a_failure(
    limit: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cases(quick: bool) -> Iterable[Row]:
        assert quick
        yield row("case", 0.5, "s", at_most=limit)

    monkeypatch.setattr("sys.argv", ["bench", "--quick", "--json"])
    with pytest.raises(SystemExit) as ended:
        main("name", cases)
    assert int(ended.value.code or 0) == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["bench"] == "name"
    assert printed["machine"]["cores"] >= 1
    assert [entry["case"] for entry in printed["rows"]] == ["case"]


def test_the_text_report_has_a_line_per_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench"])
    with pytest.raises(SystemExit):
        main("name", lambda _: [row("case", 2.0, "s", at_most=1, rival=("other", 4.0))])
    assert f"MISSED  other: 4, {TIMES}2" in capsys.readouterr().out


def test_a_median_is_of_calls_and_not_of_samples() -> None:
    calls: list[int] = []
    assert median_s(lambda: calls.append(1), repeats=3, number=4, cpu=True) >= 0
    assert len(calls) == 12
