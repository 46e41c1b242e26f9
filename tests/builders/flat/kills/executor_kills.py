"""A flat table with executors in processes of their own: one of them is killed, then the driver."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from daemon.process.child import Child
from tests.builders.components.spark_cluster import EXECUTORS
from tests.builders.flat.configured_table import ConfiguredTable, has_caught_up, listen
from tests.builders.flat.kills.driver_kills import plain


ROWS: Final = 5_000
PAD: Final = "x" * 1_000


@dataclass
class LocalTable(ConfiguredTable):
    """A table on a disk, where a look into its directory shows what tasks write."""

    def is_writing(self) -> bool:
        """Whether a task of a batch has begun to write a file."""
        return any((self.base / "table").glob(".staging/*/_temporary/0/_temporary/attempt_*/to=*/part-*.orc"))

    def staged(self) -> list[str]:
        """Return the content of the staging directory."""
        return sorted(path.name for path in (self.base / "table" / ".staging").iterdir())


def survive_executor_kills(
    table: ConfiguredTable, master: str, executors: Callable[[], Collection[int]], kill: Callable[[], int]
) -> None:
    """Kill an executor in a batch, later the driver in a batch;
    then promote, backfill and seal. The table is on any file system.

    Its source is a topic whose batches are larger than what is sent at once. ``kill`` kills one of
    ``executors`` and returns it.
    """
    table.spark = {"master": master, **EXECUTORS}
    table.land(range(2), lambda n: n % 100, count=ROWS, pad=PAD, late="x")
    with Child(table.command("run")) as driver:
        begins = begins_batch(table)
        listen(driver, None, lambda: begins() and len(executors()) == EXECUTORS["executors"])
        first = kill()
        listen(driver, has_caught_up)
        assert first not in executors()
        if isinstance(table, LocalTable):
            assert "ExecutorLostFailure" in table.tasks_lost()
            assert table.staged() == []
    # Not while a driver runs, which would remove files that it replaces while Hive reads them.
    table.finished = table.check()
    assert table.finished == set(table.events) | table.lost
    with Child(table.command("run")) as driver:
        begins = begins_batch(table)
        table.land(range(2, 4), lambda n: 10**5 * n, count=ROWS, pad=PAD, late="x")
        listen(driver, None, begins)
    table.check()

    table.land(range(4, 5), lambda n: "007" if n == 7 else n)
    table.ends_well()
    table.keys = [*table.keys, "late"]
    table.land(range(5, 7), plain, late="y")
    table.run()
    raw = table.base / "raw"
    raw.mkdir(parents=True)
    (raw / "all.json").write_text("".join(f"{line}\n" for line in table.source.sent()))
    table.complete("backfill")
    table.ends_well()
    if isinstance(table, LocalTable):
        assert table.staged() == []


def begins_batch(table: ConfiguredTable) -> Callable[[], bool]:
    """Return whether a batch has begun since now: on a disk, whether it is being written, elsewhere, whether
    Spark has begun a stage."""
    if isinstance(table, LocalTable):
        return table.is_writing
    begun = len(table.spark_events("StageSubmitted"))
    return lambda: len(table.spark_events("StageSubmitted")) > begun
