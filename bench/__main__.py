"""Runs benchmarks and writes docs/PERFORMANCE.md: ``python -m bench [--quick] [--write-only] [NAME …]``.

Every benchmark runs in a process of its own, one after another, so that none measures another's memory. Its report is kept in
``bench/results/NAME.json``; the page is written from all that are there, so that one benchmark can be repeated alone. Quick runs
are only shown. What a figure means and why a limit is missed cannot be computed: it is kept in ``bench/notes/NAME.md``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import bench
from bench.report import TIMES, tree_cpu_s


HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results"
NOTES: Final = HERE / "notes"
PAGE: Final = HERE.parent / "docs" / "PERFORMANCE.md"
NOT_BENCHES: Final = frozenset({"report", "__main__"})
OTHERS_CORES_MAX: Final = 0.2
"""What others may take of the processors during a run, in cores; a report above it is marked."""
INTRODUCTION: Final = f"""\
# Performance

Written by `make bench` (`python -m bench`), which runs every benchmark below and keeps its report in `bench/results`. One of
them alone: `python -m bench NAME`, or `python -m bench.NAME [--quick] [--json]` without touching this page. What the real
components need (a JDK as a wheel, Kafka, Hive) is fetched by `make stack`.

A limit is what the design asks for: ≤ and ≥ bound the value itself, {TIMES}N how many times better than the rival it has to be. Rivals
are measured in the same run. Rows without a limit explain others. Figures are medians unless their name says otherwise.
"""


def names() -> list[str]:
    """Return the benchmarks that there are."""
    return sorted({found.name for found in pkgutil.iter_modules(bench.__path__)} - NOT_BENCHES)


def run(name: str, *, quick: bool) -> dict[str, Any] | None:
    """Run one benchmark and return its report; None where it failed to give one, which it has then explained itself."""
    print(f"bench.{name}", file=sys.stderr, flush=True)
    neighbours = Neighbours()
    command = [sys.executable, "-m", f"bench.{name}", "--json", *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=HERE.parent)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        print(f"bench.{name} ended with {done.returncode} and without a report", file=sys.stderr)
        return None
    report["machine"]["others_cores"] = neighbours.cores()
    return report


class Neighbours:
    """How much of the processors others take: what was busy, less what the benchmark and all that it started have used."""

    def __init__(self) -> None:
        self._began_s, self._busy_s, self._own_s = time.monotonic(), _busy_s(), tree_cpu_s()

    def cores(self) -> float:
        """Return the others' share since the beginning, in cores; a JVM that has ended and was not waited for is still ours."""
        others_s = (_busy_s() - self._busy_s) - (tree_cpu_s() - self._own_s)
        return round(max(0.0, others_s / (time.monotonic() - self._began_s)), 2)


def _busy_s() -> float:
    """Processor seconds of all processes since the start of the machine: user, nice, system, irq, softirq of /proc/stat."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:8]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def page(reports: dict[str, dict[str, Any]]) -> str:
    """Return the whole page."""
    return "\n".join([INTRODUCTION, *(section(name, report) for name, report in reports.items())])


def section(name: str, report: dict[str, Any]) -> str:
    """Return one benchmark's section: what it measures, on what, the table, the notes."""
    told = importlib.import_module(f"bench.{name}").__doc__ or ""
    notes = NOTES / f"{name}.md"
    parts = [f"## {name}", told.strip(), on_what(report["machine"]), table(report["rows"])]
    return "\n\n".join([*parts, *([notes.read_text().strip()] if notes.exists() else []), ""])


def on_what(machine: dict[str, Any]) -> str:
    """Return the machine in a sentence, with a mark where it was not alone."""
    text = (
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, "
        f"Python {machine['python']}. Others took {machine['others_cores']:g} cores of it meanwhile."
    )
    if machine["others_cores"] > OTHERS_CORES_MAX:
        text += " **So the figures are worse than they would be alone.**"
    return text


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    head = "| case | value | unit | limit | rival | | |\n|---|---:|---|---|---|---:|---|"
    return "\n".join([head, *map(line, rows)])


def line(row: dict[str, Any]) -> str:
    """Return one row of the table."""
    verdict = {True: "ok", False: "**missed**", None: ""}[row["ok"]]
    rival = f"{row['rival']}: {row['rival_value']:g}" if row["rival"] else ""
    ratio = f"{TIMES}{row['ratio']:g}" if row["ratio"] is not None else ""
    return f"| {row['case']} | {row['value']:g} | {row['unit']} | {row['limit'] or ''} | {rival} | {ratio} | {verdict} |"


def kept() -> dict[str, dict[str, Any]]:
    """Return the reports that were kept, by name."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))}


def main() -> int:
    """Run what is asked for; return 1 where a benchmark gave no report or a limit was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}; all where none is given"
    )
    parser.add_argument("--quick", action="store_true", help="smaller data; shown, and not kept")
    parser.add_argument(
        "--write-only", action="store_true", help="write the page from the reports that are kept"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(names()):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    wanted = [] if options.write_only else options.names or names()
    reports = {name: run(name, quick=options.quick) for name in wanted}
    for name, report in reports.items():
        if report is not None and options.quick:
            print(section(name, report))
        elif report is not None:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    if not options.quick:
        PAGE.write_text(page(kept()))
    return int(any(report is None or missed(report) for report in reports.values()))


def missed(report: dict[str, Any]) -> bool:
    """Whether a limit was missed."""
    return any(row["ok"] is False for row in report["rows"])


if __name__ == "__main__":
    sys.exit(main())
