"""The page of results and the sections of its reports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bench import __main__ as bench_page
from bench.__main__ import OtherProcesses, describe_machine, list_benchmarks, render_page, render_table
from bench.report import row, tree_cpu_s


MACHINE = {
    "processor": "A Processor",
    "cores": 2,
    "memory_gib": 23.5,
    "python": "3.11.7",
    "others_cores": 0.1,
}


def report(*rows: Any) -> dict[str, Any]:
    return {"bench": "timelines", "machine": MACHINE, "rows": [asdict(each) for each in rows]}


def test_every_benchmark_is_found_and_nothing_else() -> None:
    assert {"events", "timelines"} <= set(list_benchmarks())
    assert not {"report", "__main__", "notes", "results"} & set(list_benchmarks())


def test_the_report_of_a_part_replaces_its_rows_until_the_whole_benchmark_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_page, "RESULTS", tmp_path)
    bench_page.store_report("timelines", report(row("a", 1, "s"), row("b", 1, "s")))
    bench_page.store_report("timelines.cover", report(row("b", 2, "s"), row("c", 2, "s")))
    stored = bench_page.read_reports()
    assert {name: [each["case"] for each in one["rows"]] for name, one in stored.items()} == {
        "timelines": ["a"],
        "timelines.cover": ["b", "c"],
    }
    assert "A part of the benchmark `timelines`" in render_page(stored)
    bench_page.store_report("timelines", report(row("a", 1, "s")))
    assert list(bench_page.read_reports()) == ["timelines"]


@pytest.mark.parametrize(
    ("names", "shown_in"),
    [(["a", "a.one", "b"], "## a\n"), (["a.one", "a.two", "b"], "## a.two\n"), (["b"], "")],
)
def test_the_notes_of_a_benchmark_follow_its_report_or_its_last_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], shown_in: str
) -> None:
    monkeypatch.setattr(bench_page, "NOTES", tmp_path)
    (tmp_path / "a.md").write_text("What a means.")
    modules = SimpleNamespace(import_module=lambda name: ModuleType(name, "About it."))
    monkeypatch.setattr(bench_page, "importlib", modules)
    page = render_page({name: report(row("x", 1, "s")) for name in names})
    sections = [f"## {each}" for each in page.split("\n## ")[1:]]
    assert [each.partition("\n")[0] + "\n" for each in sections if "What a means." in each] == (
        [shown_in] if shown_in else []
    )


def test_a_missed_limit_is_shown_beside_its_value() -> None:
    text = render_table(report(row("slow", 2.5, "s", at_most=1))["rows"])
    assert "| slow | 2.5 | s | ≤ 1 |  |  | **missed** |" in text


def test_a_row_with_a_rival_has_the_ratio_to_it() -> None:
    text = render_table(report(row("fast", 2, "ms", times=10, rival=("seed", 40)))["rows"])
    assert "| seed: 40 | \N{MULTIPLICATION SIGN}20 | ok |" in text


def test_a_busy_machine_is_reported() -> None:
    assert "**" not in describe_machine(MACHINE)
    assert "**The figures are therefore worse" in describe_machine(MACHINE | {"others_cores": 0.9})


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_processes_of_a_benchmark_are_not_counted_as_others(is_waited_for: bool) -> None:
    neighbours, used_s = OtherProcesses(), tree_cpu_s()
    code = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    began_s = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        if is_waited_for:
            child.wait()
        idle_cores = (os.cpu_count() or 1) - 0.5 / (time.monotonic() - began_s)
        assert 0 <= neighbours.cores() <= idle_cores + 0.1
        assert tree_cpu_s() - used_s >= 0.45


def test_a_process_that_outlives_its_parent_counts_as_part_of_the_benchmark() -> None:
    measuring = """
import os, subprocess, sys
from bench.__main__ import adopt_orphans
from bench.report import tree_cpu_s
adopt_orphans()
used_s = tree_cpu_s()
burn = "import time; list(iter(lambda: time.process_time() < 0.5, False))"
parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
subprocess.run([sys.executable, "-c", parent], check=True)
os.waitpid(-1, 0)
print(tree_cpu_s() - used_s)
"""
    done = subprocess.run([sys.executable, "-c", measuring], capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 0.5


def test_the_page_has_a_section_for_every_report_with_what_it_measures() -> None:
    text = render_page({"timelines": report(row("cover", 1, "µs"))})
    assert "## timelines" in text
    assert "recursion over sets" in text
    assert "| cover | 1 | µs |" in text
