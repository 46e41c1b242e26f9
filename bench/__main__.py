"""Runs benchmarks and writes docs/PERFORMANCE.md.

``python -m bench [--quick] [--write-only] [NAME | NAME.PART …]``: the benchmarks run one after another, each
in its own process, so that none measures the memory of another. The report is stored in
``bench/results/NAME.json``. The page is written from all stored reports, so a single benchmark can be
repeated. Quick runs are printed and not stored. A part of a benchmark (``partitions.plans``) has its own
report, whose rows replace those of the whole benchmark on the page until the whole benchmark runs again.
``bench/notes/NAME.md`` explains the figures and the reasons for a missed limit.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import bench
from bench.report import TIMES, tree_cpu_s


HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results"
NOTES: Final = HERE / "notes"
PAGE: Final = HERE.parent / "docs" / "PERFORMANCE.md"
NOT_BENCHES: Final = frozenset(
    {"report", "__main__", "catalog_listing", "catalog_loads", "catalog_readers", "copy_jobs"}
)
OTHER_CORES_MAX: Final = 0.2
"""Cores that other processes may use during a run; a report above this limit is marked."""
_SET_CHILD_SUBREAPER: Final = 36
"""``PR_SET_CHILD_SUBREAPER`` of prctl(2)."""
INTRODUCTION: Final = f"""\
# Performance

Written by `make bench` (`python -m bench`), which runs every benchmark below and stores its report in
`bench/results`. To run one benchmark: `python -m bench NAME`, or `python -m bench.NAME [--quick] [--json]`,
which does not write this page. `make stack` downloads the real components (a Java runtime as a wheel, Kafka,
Hive).

Limits come from the design: ≤ and ≥ bound the value itself, {TIMES}N says how many times better than the
rival it must be. Each run measures the rivals as well. Rows without a limit explain others. Figures are
medians unless their name says otherwise.

![How many times faster than a rival each case is](pictures/performance-rivals.svg)

A verified copy and a forwarded call cost more than without Tideline, and a copy job of Spark takes
longer than DistCp. The cost of a filter, and of a cover without holes, does not grow with the data, unlike
that of their rivals:

![The cost of a filter and of a cover, over the size of their data](pictures/performance-sizes.svg)

`make pictures` draws both from `bench/results`.
"""


def list_benchmarks() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted({found.name for found in pkgutil.iter_modules(bench.__path__)} - NOT_BENCHES)


def run_benchmark(name: str, *, quick: bool) -> dict[str, Any] | None:
    """Run one benchmark and return its report; None if it printed the reason of a failure instead."""
    print(f"bench.{name}", file=sys.stderr, flush=True)
    adopt_orphans()
    others = OtherProcesses()
    whole, _, part = name.partition(".")
    command = [sys.executable, "-m", f"bench.{whole}", "--json", *(["--quick"] if quick else [])]
    command += ["--only", part] if part else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=HERE.parent)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        print(f"bench.{name} exited with {done.returncode} and without a report", file=sys.stderr)
        return None
    report["machine"]["others_cores"] = others.cores()
    return report


class OtherProcesses:
    """Measures the processor time of other processes: all busy time minus that of this process and its
    children.
    """

    def __init__(self) -> None:
        self._began_s, self._busy_s, self._own_s = time.monotonic(), _read_busy_s(), tree_cpu_s()

    def cores(self) -> float:
        """Return how many cores other processes have used since the beginning."""
        _reap_orphans()
        others_s = (_read_busy_s() - self._busy_s) - (tree_cpu_s() - self._own_s)
        return round(max(0.0, others_s / (time.monotonic() - self._began_s)), 2)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, such as a JVM whose Python process has ended, so
    that their processor time counts for this process.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans() -> None:
    """Wait for the children that have ended, so that their processor time counts for this process."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _read_busy_s() -> float:
    """Return the processor seconds of all processes since boot: user, nice, system, irq, softirq of
    /proc/stat.
    """
    fields = [int(field) for field in Path("/proc/stat").read_text().split()[1:8]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def render_page(reports: dict[str, dict[str, Any]]) -> str:
    """Return the text of docs/PERFORMANCE.md."""
    sections = (render_section(name, report, _find_notes(name, reports)) for name, report in reports.items())
    return "\n".join([INTRODUCTION, *sections])


def _find_notes(name: str, reports: Collection[str]) -> str:
    """Return the notes of a benchmark. If it has only parts, the notes belong to the last one."""
    whole = name.partition(".")[0]
    last = max(each for each in reports if each.partition(".")[0] == whole)
    notes = NOTES / f"{whole}.md"
    is_shown = name == whole or (name == last and whole not in reports)
    return notes.read_text().strip() if is_shown and notes.exists() else ""


def render_section(name: str, report: dict[str, Any], notes: str = "") -> str:
    """Return the section of one benchmark: description, machine, table, notes."""
    whole, _, part = name.partition(".")
    description = importlib.import_module(f"bench.{whole}").__doc__ or ""
    if part:
        description = f"A part of the benchmark `{whole}` that was run alone."
    parts = [
        f"## {name}",
        description.strip(),
        describe_machine(report["machine"]),
        render_table(report["rows"]),
    ]
    return "\n\n".join([*parts, *([notes] if notes else []), ""])


def describe_machine(machine: dict[str, Any]) -> str:
    """Return a paragraph about the machine, with a mark if other processes used it."""
    text = (
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, "
        f"Python {machine['python']}."
    )
    used = machine.get("others_cores")
    if used is None:  # a report of ``python -m bench.NAME --json``
        return f"{text}\nThe load of other processes was not measured."
    text += f"\nOther processes used {used:g} cores during the run."
    if used > OTHER_CORES_MAX:
        text += "\n**The figures are therefore worse than on an idle machine.**"
    return text


def render_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    head = "| case | value | unit | limit | rival | | |\n|---|---:|---|---|---|---:|---|"
    return "\n".join([head, *map(render_row, rows)])


def render_row(row: dict[str, Any]) -> str:
    """Return one row of the table."""
    verdict = {True: "ok", False: "**missed**", None: ""}[row["ok"]]
    rival = f"{row['rival']}: {row['rival_value']:g}" if row["rival"] else ""
    ratio = f"{TIMES}{row['ratio']:g}" if row["ratio"] is not None else ""
    return (
        f"| {row['case']} | {row['value']:g} | {row['unit']} | {row['limit'] or ''} | {rival} | {ratio} "
        f"| {verdict} |"
    )


def read_reports() -> dict[str, dict[str, Any]]:
    """Return the stored reports by name."""
    reports = {file.stem: json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))}
    for name, report in reports.items():
        parts = [part for other, part in reports.items() if other.startswith(f"{name}.")]
        newer = {row["case"] for part in parts for row in part["rows"]}
        report["rows"] = [row for row in report["rows"] if row["case"] not in newer]
    return reports


def store_report(name: str, report: dict[str, Any]) -> None:
    """Store a report. The report of a whole benchmark replaces those of its parts."""
    RESULTS.mkdir(exist_ok=True)
    for part in RESULTS.glob(f"{name}.*.json"):
        part.unlink()
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")


def main() -> int:
    """Run the selected benchmarks; return 1 if one gave no report or missed a limit."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {', '.join(list_benchmarks())} (default: all), or a part of one: NAME.PART",
    )
    parser.add_argument(
        "--quick", action="store_true", help="use smaller data; print the result without storing it"
    )
    parser.add_argument("--write-only", action="store_true", help="write the page from the stored reports")
    options = parser.parse_args()
    if unknown := {name for name in options.names if name.partition(".")[0] not in list_benchmarks()}:
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}")
    selected = [] if options.write_only else options.names or list_benchmarks()
    reports = {name: run_benchmark(name, quick=options.quick) for name in selected}
    for name, report in reports.items():
        if report is not None and options.quick:
            print(render_section(name, report))
        elif report is not None:
            store_report(name, report)
    if not options.quick:
        PAGE.write_text(render_page(read_reports()))
    return int(any(report is None or misses_limit(report) for report in reports.values()))


def misses_limit(report: dict[str, Any]) -> bool:
    """Return whether the report misses a limit."""
    return any(row["ok"] is False for row in report["rows"])


if __name__ == "__main__":
    sys.exit(main())
