"""The page of coverage adds up modules by package and folder, and knows what is required."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dev import coverage_page
from dev.coverage_page import REQUIRED_PERCENT, percent_covered, sum_up


def file_report(statements: int, lines: int, branches: int, exits: int) -> dict[str, Any]:
    counts = {
        "num_statements": statements,
        "covered_lines": lines,
        "num_branches": branches,
        "covered_branches": exits,
    }
    return {"summary": counts}


REPORT = {
    "state/errors.py": file_report(10, 10, 0, 0),
    "state/store/pages.py": file_report(20, 18, 4, 2),
    "state/store/deep/er.py": file_report(1, 1, 0, 0),
    "daemon/service/main.py": file_report(5, 0, 2, 0),
}


def test_folders_below_a_package_are_added_up_at_their_first_level() -> None:
    assert sum_up(REPORT) == {
        "state": [31, 29, 4, 2],
        "state/store": [21, 19, 4, 2],
        "daemon": [5, 0, 2, 0],
        "daemon/service": [5, 0, 2, 0],
        "all": [36, 29, 6, 2],
    }


def test_statements_and_branches_count_together() -> None:
    assert percent_covered([20, 18, 4, 2]) == pytest.approx(100 * 20 / 24)
    assert percent_covered([0, 0, 0, 0]) == 0


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The files of the next report, which a test fills."""
    files: dict[str, Any] = {}

    class Measurement:
        def load(self) -> None: ...

        def json_report(self, *, outfile: str) -> None:
            (tmp_path / "report.json").write_text(json.dumps({"files": files}))
            assert outfile == str(tmp_path / "report.json")

    monkeypatch.setattr(coverage_page, "Coverage", Measurement)
    monkeypatch.setattr(coverage_page, "REPORT", tmp_path / "report.json")
    monkeypatch.setattr(coverage_page, "PAGE", tmp_path / "COVERAGE.md")
    return files


def test_one_statement_missed_in_state_fails_and_is_on_the_page(
    measured: dict[str, Any], tmp_path: Path
) -> None:
    measured["state/errors.py"] = file_report(9999, 9998, 0, 0)
    with pytest.raises(SystemExit, match=r"state: 99\.99 % is covered, must be at least 100 %"):
        coverage_page.main()
    assert "| state | 9999 | 1 | 0 | 0 | 99.9 | 100 |" in (tmp_path / "COVERAGE.md").read_text()


def test_what_reaches_the_required_percentage_passes(measured: dict[str, Any]) -> None:
    share = REQUIRED_PERCENT["all"]
    measured |= {
        "state/errors.py": file_report(10, 10, 0, 0),
        "daemon/main.py": file_report(100, share, 0, 0),
    }
    with pytest.raises(SystemExit) as ended:
        coverage_page.main()
    assert ended.value.code is None


def test_the_whole_fails_below_its_percentage(measured: dict[str, Any]) -> None:
    measured |= {
        "state/errors.py": file_report(10, 10, 0, 0),
        "daemon/main.py": file_report(100, 50, 0, 0),
    }
    with pytest.raises(SystemExit, match=r"all: 54\.55 % is covered, must be at least 90 %"):
        coverage_page.main()
