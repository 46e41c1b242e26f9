"""The report of a benchmark, and the common parts of all benchmarks: timing and the command line.

``python -m bench.NAME [--quick] [--only PART] --json`` prints one object: the benchmark, the machine, and
rows. A row has a measured value, its limit, and the value of a rival that was measured in the same run.
Without ``--json``, it prints the rows as a table. Values are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final


TIMES: Final = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured case. ``ratio`` says how many times better it is than the rival; ``ok`` is None without a
    limit.
    """

    case: str
    value: float
    unit: str
    limit: str | None = None
    rival: str | None = None
    rival_value: float | None = None
    ratio: float | None = None
    ok: bool | None = None


Cases = Callable[[bool], Iterable[Row]]
"""Runs cases; True for smaller data."""


def row(
    case: str,
    value: float,
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    times: float | None = None,
    rival: tuple[str, float] | None = None,
) -> Row:
    """Build the row of a value, judged by its limits: ``at_most``, ``at_least``, or ``times`` better than the
    rival.

    With ``at_least``, more is better; otherwise less is better.
    """
    name, rival_value = rival or (None, None)
    ratio = None
    if rival_value:
        ratio = value / rival_value if at_least is not None else rival_value / value
    limits = [
        (f"≤ {at_most:g}", value <= at_most) if at_most is not None else None,
        (f"≥ {at_least:g}", value >= at_least) if at_least is not None else None,
        (f"{TIMES}{times:g}", ratio is not None and ratio >= times) if times is not None else None,
    ]
    given = [limit for limit in limits if limit]
    return Row(
        case=case,
        value=_round(value),
        unit=unit,
        limit=", ".join(text for text, _ in given) or None,
        rival=name,
        rival_value=None if rival_value is None else _round(rival_value),
        ratio=None if ratio is None else _round(ratio),
        ok=all(held for _, held in given) if given else None,
    )


def median_s(call: Callable[[], object], *, repeats: int = 5, number: int = 1, cpu: bool = False) -> float:
    """Return the median time of one call in seconds, over ``repeats`` samples of ``number`` calls each.

    With ``cpu`` it is the processor time of the process. For code that neither waits nor uses threads this
    equals wall time, except on a shared machine, where wall time includes the other processes.
    """
    now_ns = time.process_time_ns if cpu else time.perf_counter_ns
    samples = []
    for _ in range(repeats):
        start_ns = now_ns()
        for _ in range(number):
            call()
        samples.append((now_ns() - start_ns) / number / 1e9)
    return statistics.median(samples)


def tree_cpu_s() -> float:
    """Return the processor seconds, user and system,
    that this process and its descendants have used so far.
    """
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended meanwhile
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while below := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= below
    return sum(used.get(pid, 0) for pid in ours) / os.sysconf("SC_CLK_TCK")


def describe_machine() -> dict[str, object]:
    """Return the machine on which the figures depend: processor, cores, memory, Python, load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _read_processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "load_1min": round(os.getloadavg()[0], 1),
    }


def main(bench: str, parts: Mapping[str, Cases] | Cases) -> None:
    """Run a benchmark from the command line; exit with 1 if a row misses its limit. Each of ``parts`` can run
    alone.
    """
    known = parts if isinstance(parts, Mapping) else {"all": parts}
    parser = argparse.ArgumentParser(prog=f"python -m bench.{bench}")
    parser.add_argument("--only", choices=list(known), help="run one part")
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer repeats")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    measured = describe_machine()
    chosen = [known[options.only]] if options.only else list(known.values())
    rows = [each for cases in chosen for each in cases(options.quick)]
    if options.json:
        print(
            json.dumps(
                {"bench": bench, "machine": measured, "rows": [asdict(each) for each in rows]}, indent=1
            )
        )
    else:
        print("\n".join(map(_render_row, rows)))
    sys.exit(any(each.ok is False for each in rows))


def _render_row(each: Row) -> str:
    rival = f"{each.rival}: {each.rival_value:g}, {TIMES}{each.ratio:g}" if each.rival else ""
    verdict = {True: "ok", False: "MISSED", None: ""}[each.ok]
    return f"{each.case:<40} {each.value:>12g} {each.unit:<8} {each.limit or '':<10} {verdict:<7} {rival}"


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _read_processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
