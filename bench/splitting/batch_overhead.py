"""The overhead of a micro-batch, apart from the work on its rows, measured with the complete protocol for a
few rows.

The driver runs as in the product, on Spark's own metastore: it plans, stages, reads footers, publishes,
records, and maintains the table between batches. Each batch has one file of twenty events, so its time is its
overhead. The first batches, in which the JVM warms up, do not count. The cases run in a separate process,
because the driver starts and stops its session.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from bench.report import Row, row
from bench.splitting import driver_start
from dev.fixtures.json_events import lines
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from streaming.driver.commands import run
from streaming.settings import DirectorySource, EventTime, FlatSettings


EVENTS_PER_BATCH: Final = 20
WARM: Final = 10


def measure(quick: bool, keys: Sequence[str]) -> list[Row]:
    """Return the median time of a batch of a few rows after warm-up, with a column for each of ``keys``, and
    the time of a driver's start.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        overhead_s = alone.submit(_measure_overhead_s, 14 if quick else 30, tuple(keys)).result()
    return [row("batch_overhead", overhead_s, "s", at_most=0.7), *driver_start.measure(quick, keys)]


def _measure_overhead_s(batches: int, keys: tuple[str, ...]) -> float:
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        directory = Path(name)
        landing = directory / "landing"
        landing.mkdir()
        events = list(lines(EVENTS_PER_BATCH * batches))
        for number in range(batches):
            some = events[number * EVENTS_PER_BATCH : (number + 1) * EVENTS_PER_BATCH]
            (landing / f"{number:03}.json").write_text("\n".join(some) + "\n", encoding="utf-8")
        messages: list[Mapping[str, Any]] = []
        run(_build_settings(directory, keys), messages.append, once=True)
    durations = [event["durations"] for event in messages if event["event"] == "progress"]
    assert len(durations) == batches, len(durations)
    batch_s = [float(each["upkeep_s"] + each["batch_s"]) for each in durations[WARM:]]
    return statistics.median(batch_s)


def _build_settings(directory: Path, keys: tuple[str, ...]) -> FlatSettings:
    return FlatSettings(
        database="default",
        table="events_flat",
        location=(directory / "flat").as_uri(),
        checkpoint=(directory / "checkpoint").as_uri(),
        source=DirectorySource((directory / "landing").as_uri(), files_per_batch=1),
        event_time=EventTime(KeyPath.of_dotted("epoch")),
        rules=FlatRules(whitelist=frozenset(map(KeyPath.of_dotted, keys)), probation_values=1),
    )
