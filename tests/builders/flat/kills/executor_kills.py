"""A flat table with executors in processes of their own: one of them is killed, then the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from daemon.process.children.child import Child
from tests.builders.components.spark_cluster import EXECUTORS
from tests.builders.flat.configured_table import has_caught_up, listen
from tests.builders.flat.kills.driver_kills import plain


if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.builders.components.spark_cluster import SparkCluster
    from tests.builders.flat.configured_table import ConfiguredTable


ROWS: Final = 3_000
PAD: Final = "x" * 1_000


def survive_executor_kills(table: ConfiguredTable, cluster: SparkCluster) -> None:
    """Kill an executor in a batch, later the driver in a batch; then promote, backfill and seal. The table is on any file system.

    Its source is a topic whose batches are larger than what is sent at once.
    """
    table.spark = {"master": cluster.master.url, **EXECUTORS}
    table.land(range(2), lambda n: n % 100, count=ROWS, pad=PAD, late="x")
    with Child(table.command("run")) as driver:
        listen(driver, None, lambda: len(cluster.worker.executors()) == 2 and has_begun_stages(table, 1)())
        first = cluster.kill_an_executor()
        listen(driver, has_caught_up)
        assert first not in cluster.worker.executors()
    # Not while a driver runs, which would remove files that it replaces while Hive reads them.
    table.finished = table.check()
    assert table.finished == set(table.events) | table.lost
    with Child(table.command("run")) as driver:
        begun = len(table.spark_events("StageSubmitted"))
        table.land(range(2, 4), lambda n: 10**5 * n, count=ROWS, pad=PAD, late="x")
        listen(driver, None, has_begun_stages(table, begun + 1))
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


def has_begun_stages(table: ConfiguredTable, count: int) -> Callable[[], bool]:
    """Return whether Spark has begun so many stages in all runs."""
    return lambda: len(table.spark_events("StageSubmitted")) >= count
