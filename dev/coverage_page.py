"""Writes docs/COVERAGE.md from the data of ``make coverage``, and fails if the coverage is below the required
one.

Coverage counts statements and branches together, as ``coverage report`` does. ``state/`` contains pure rules,
so tests must reach all of it. The other packages contain lines that only a failing server reaches, so the
required share applies to the package and not to each module.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor
from pathlib import Path
from typing import Any, Final

from coverage import Coverage


ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "COVERAGE.md"
REPORT: Final = ROOT / "build" / "coverage" / "report.json"
REQUIRED_PERCENT: Final[Mapping[str, int]] = {"state": 100, "all": 90}
COUNTS: Final = ("num_statements", "covered_lines", "num_branches", "covered_branches")
INTRODUCTION: Final = """\
# Coverage

Written by `make coverage`: the unit tests (`tests/unit`, without a server), and the processes that they
start. Run it to see which lines and branches of a module no test reaches:
`coverage report --show-missing --include 'handlers/files/*'`. Coverage counts statements and branches
together. `make coverage` fails below the required percentage.
"""


def sum_up(files: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the counts of each package and its folders, and of all files together."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
    for path, report in files.items():
        package, *folders = Path(path).parent.parts
        for name in {package, "/".join([package, *folders[:1]]), "all"}:
            totals[name] = [
                sum(pair)
                for pair in zip(totals[name], (report["summary"][key] for key in COUNTS), strict=True)
            ]
    return totals


def percent_covered(counts: list[int]) -> float:
    """Return the percentage of statements and branches that tests reach."""
    statements, lines, branches, exits = counts
    return 100 * (lines + exits) / max(1, statements + branches)


def write_page(totals: Mapping[str, list[int]]) -> None:
    """Write the page: a table of packages and their folders.
    Percentages are rounded down: 99.99 is not 100.
    """
    rows = [
        f"| {name if '/' not in name else f'`{name}`'} | {counts[0]} | {counts[0] - counts[1]} "
        f"| {counts[2]} | {counts[2] - counts[3]} | {floor(10 * percent_covered(counts)) / 10} "
        f"| {REQUIRED_PERCENT.get(name, '')} |"
        for name, counts in sorted(totals.items())
    ]
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    lines = [
        INTRODUCTION,
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with {version}.",
        "",
        "| package | statements | missed | branches | missed | % | required |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
    ]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Write the page; exit with an error if a percentage is below the required one."""
    coverage = Coverage()
    coverage.load()
    coverage.json_report(outfile=str(REPORT))
    totals = sum_up(json.loads(REPORT.read_text(encoding="utf-8"))["files"])
    write_page(totals)
    falls = [
        f"{name}: {percent_covered(totals[name]):.2f} % is covered, must be at least {minimum} %"
        for name, minimum in REQUIRED_PERCENT.items()
        if percent_covered(totals[name]) < minimum
    ]
    sys.exit("\n".join(f"error: {fall}" for fall in falls) or None)


if __name__ == "__main__":
    main()
