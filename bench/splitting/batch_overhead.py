"""What a micro-batch costs beside the work on its rows: the whole protocol, for a handful of rows.

The driver as the product runs it, on Spark's own metastore: plan, stage, read footers, publish, note, and the table kept between
two batches. Each batch has one file of twenty events, so the time of a batch is its overhead. The first ones, in which the JVM
warms up, do not count. A process of its own: the driver starts and ends its session.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.report import Row, row
from dev.fixtures.json_events import lines
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from streaming.driver.commands import run
from streaming.settings import DirectorySource, EventTime, FlatSettings


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


EVENTS_A_BATCH: Final = 20
WARM: Final = 10


def rows(quick: bool, keys: Sequence[str]) -> list[Row]:
    """Return the median time of a warm batch of a few rows, with a column for each of ``keys`` that the events have."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        overhead_s = alone.submit(_overhead_s, 14 if quick else 30, tuple(keys)).result()
    return [row("batch_overhead", overhead_s, "s", at_most=2)]


def _overhead_s(batches: int, keys: tuple[str, ...]) -> float:
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        directory = Path(name)
        landing = directory / "landing"
        landing.mkdir()
        events = list(lines(EVENTS_A_BATCH * batches))
        for number in range(batches):
            some = events[number * EVENTS_A_BATCH : (number + 1) * EVENTS_A_BATCH]
            (landing / f"{number:03}.json").write_text("\n".join(some) + "\n", encoding="utf-8")
        told: list[Mapping[str, Any]] = []
        run(_settings(directory, keys), told.append, once=True)
    durations = [event["durations"] for event in told if event["event"] == "progress"]
    assert len(durations) == batches, len(durations)
    took_s = [float(each["upkeep_s"] + each["batch_s"]) for each in durations[WARM:]]
    return statistics.median(took_s)


def _settings(directory: Path, keys: tuple[str, ...]) -> FlatSettings:
    return FlatSettings(
        database="default",
        table="events_flat",
        location=(directory / "flat").as_uri(),
        checkpoint=(directory / "checkpoint").as_uri(),
        source=DirectorySource((directory / "landing").as_uri(), files_per_batch=1),
        event_time=EventTime(KeyPath.of_dotted("epoch")),
        rules=FlatRules(whitelist=frozenset(map(KeyPath.of_dotted, keys)), probation_values=1),
    )
