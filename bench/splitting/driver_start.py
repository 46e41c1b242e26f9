"""Measures the start of a driver, from the start of its process to its first published batch.

The installation is prepared as docs/FLAT.md advises (``tideline split prepare``), with its own class archive.
Each driver starts as the daemon starts it, with a configuration file. It makes a new table in Spark's own
catalog, reads one file of 1,000 events, and ends. Both times end with the event that reports the batch;
processor time is that of the process and all its children.

The rival is a Spark job without Tideline (``bare_spark``) for the same events and keys, started alternately.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.report import Row, row, tree_cpu_s
from bench.splitting import bare_spark
from dev.fixtures.json_events import lines
from streaming.driver import class_archive


EVENTS: Final = 1_000
STARTS: Final = 5
TABLE: Final = "web"
RIVAL: Final = "Spark alone, from_json into texts"


def measure(quick: bool, keys: Sequence[str]) -> list[Row]:
    """Return the medians of wall and processor time to the first batch,
    with a column for each of ``keys``.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        environment = _environment(Path(name) / class_archive.NAME)
        command = [sys.executable, "-m", "daemon", "split", "prepare", "--json"]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        starts = (2 if quick else STARTS) + 1
        measured = [(_start(tuple(keys), environment), _start_bare(tuple(keys))) for _ in range(starts)][1:]
    ours, bare = (zip(*times, strict=True) for times in zip(*measured, strict=True))
    (wall_s, cpu_s), (bare_wall_s, bare_cpu_s) = (map(statistics.median, times) for times in (ours, bare))
    return [
        row("driver_start", wall_s, "s", at_most=6, rival=(RIVAL, bare_wall_s)),
        row("driver_start_cpu", cpu_s, "CPU-s", rival=(RIVAL, bare_cpu_s)),
    ]


def _start(keys: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a driver until it has read its source; return the wall and processor time to its first batch."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        directory = Path(name)
        path = _write_files(directory, keys)
        command = [sys.executable, "-m", "daemon", "split", "run", TABLE, "--once", "--json", "-c", str(path)]
        cpu_s, start_s = tree_cpu_s(), time.perf_counter()
        with subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE) as driver:
            assert driver.stdout is not None
            for line in driver.stdout:
                event = json.loads(line)
                if event["event"] == "progress":
                    assert event["rows"] == EVENTS, event
                    taken = time.perf_counter() - start_s, tree_cpu_s() - cpu_s
        assert driver.returncode == 0, driver.returncode
        return taken


def _start_bare(keys: tuple[str, ...]) -> tuple[float, float]:
    """Run Spark alone; return the wall and processor time to its first batch."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        directory = Path(name)
        _write_events(directory)
        command = [sys.executable, "-m", "bench.splitting.bare_spark", name, *keys]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        cpu_s, start_s = tree_cpu_s(), time.perf_counter()
        with subprocess.Popen(
            command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True
        ) as job:
            assert job.stdout is not None
            assert job.stdout.readline().strip() == bare_spark.DONE
            taken = time.perf_counter() - start_s, tree_cpu_s() - cpu_s
        assert job.returncode == 0, job.returncode
        return taken


def _environment(archive: Path) -> dict[str, str]:
    own = {"PYTHONPATH": str(Path(__file__).parents[2]), class_archive.VARIABLE: str(archive)}
    return {**os.environ, **own}


def _write_events(directory: Path) -> Path:
    landing = directory / "landing"
    landing.mkdir()
    (landing / "events.json").write_text("\n".join(lines(EVENTS)) + "\n", encoding="utf-8")
    return landing


def _write_files(directory: Path, keys: tuple[str, ...]) -> Path:
    landing = _write_events(directory)
    table = {
        "table": "default.events_flat",
        "raw_table": "default.raw",
        "location": str(directory / "table"),
        "checkpoint": str(directory / "checkpoint"),
        "source": {"kind": "directory", "path": str(landing)},
        "event_time": {"key": "$.epoch"},
        "rules": {"whitelist": [f"$.{key}" for key in keys], "probation_values": 1},
    }
    path = directory / "tideline.yaml"
    path.write_text(json.dumps({"state": {"dir": str(directory / "state")}, "flat": {TABLE: table}}))
    return path
