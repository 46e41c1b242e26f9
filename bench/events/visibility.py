"""Cases of the latency of a commit: from ``commit_txn`` at the source until its write id is valid on the
target.

The clock starts when the writer sends the commit. It stops when a valid write-id list of the target contains
the write id; a separate connection polls every 20 ms. The time therefore includes one source commit and up to
one poll too much; it is never too short. The writers follow their schedule if the source is fast enough;
``_rate`` is the rate that they reached.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from bench.events.environment import make_name, run_daemon, say, wait_for
from bench.events.writer import TABLE, Load, Writer
from bench.report import Row, row
from dev.demo.replicator import Replicator
from dev.stack.endpoints import Endpoints
from dev.stack.errors import ComponentFailed
from handlers.metastore.client import Metastore


POLL_S: Final = 0.02
DRAIN_S: Final = 120.0
WARM_UP_S: Final = 10.0
"""Warm-up at the higher rate: metastores that have just started still compile their code, unlike one that has
run for months."""
WRITERS: Final = 4


def cases(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    seconds = 10.0 if quick else 60.0
    db = make_name("visible")
    with run_daemon(endpoints, db) as replicator:
        with closing(Writer(endpoints.source.metastore, db)) as writer:
            writer.create()
            writer.insert()
        say("commit_to_visible: warming up")
        watch = TargetWatch(endpoints.target.metastore, replicator)
        run_load(endpoints, db, watch, per_s=20, seconds=WARM_UP_S)
        yield from measure_latencies(endpoints, db, watch, "commit_to_visible", per_s=5, seconds=seconds)
        yield from measure_latencies(endpoints, db, watch, "commit_to_visible_20", per_s=20, seconds=seconds)
        yield measure_recovery(endpoints, db, watch)


def measure_recovery(endpoints: Endpoints, db: str, watch: TargetWatch) -> Row:
    """Kill the daemon, commit, and start the daemon again; measure the time until the commit is visible,
    including the start of Python.
    """
    say("recovery_to_visible")
    watch.replicator.stop(signal.SIGKILL)
    load = Load(lambda: Writer(endpoints.source.metastore, db), per_s=1, seconds=1, writers=1)
    load.start()
    load.join()
    began_s = time.monotonic()
    watch.replicator.start()
    return row("recovery_to_visible", max(watch.wait_for_commits(load).values()) - began_s, "s")


def measure_latencies(
    endpoints: Endpoints, db: str, watch: TargetWatch, case: str, *, per_s: float, seconds: float
) -> Iterator[Row]:
    say(f"{case}: {per_s:g} transactions/s for {seconds:g} s")
    load, times = run_load(endpoints, db, watch, per_s=per_s, seconds=seconds)
    yield row(f"{case}_p99", statistics.quantiles(times, n=100)[98], "s", at_most=0.5)
    yield row(f"{case}_p50", statistics.median(times), "s")
    yield row(f"{case}_rate", load.actual_per_s, "txn/s")
    source_s = statistics.median(commit.answered_s - commit.asked_s for commit in load.commits)
    yield row(f"{case}_source_commit_p50", source_s, "s")


def run_load(
    endpoints: Endpoints, db: str, watch: TargetWatch, *, per_s: float, seconds: float
) -> tuple[Load, list[float]]:
    """Run a load to its end and return it with the seconds until each commit was visible."""
    load = Load(lambda: Writer(endpoints.source.metastore, db), per_s=per_s, seconds=seconds, writers=WRITERS)
    load.start()
    seen = watch.wait_for_commits(load)
    return load, [seen[commit.write_id] - commit.asked_s for commit in load.commits]


@dataclass(frozen=True, slots=True)
class TargetWatch:
    """Polls the target until all commits of a load are visible."""

    uri: str
    replicator: Replicator

    def wait_for_commits(self, load: Load) -> Mapping[int, float]:
        """Return the time at which each write id became visible; raise ComponentFailed if one does not."""
        seen: dict[int, float] = {}
        with Metastore(self.uri) as target:
            wait_for(lambda: TABLE in target.table_names(self.replicator.target_db), "the table's replica")
            deadline_s = time.monotonic() + DRAIN_S
            while load.running or any(commit.write_id not in seen for commit in list(load.commits)):
                if load.running:
                    deadline_s = time.monotonic() + DRAIN_S
                elif time.monotonic() > deadline_s:
                    raise ComponentFailed(f"commits did not become visible:\n{self.replicator.log_tail()}")
                self._note_visible(target, seen)
                time.sleep(POLL_S)
        return seen

    def _note_visible(self, target: Metastore, seen: dict[int, float]) -> None:
        """Record the write ids that have become visible."""
        (valid,) = target.valid_write_ids([f"{self.replicator.target_db}.{TABLE}"])
        now_s = time.monotonic()
        hidden = {*valid.open, *valid.aborted}
        for write_id in range(1, valid.high_water_mark + 1):
            if write_id not in hidden and write_id not in seen:
                seen[write_id] = now_s
