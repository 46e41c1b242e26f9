"""Cases of replication while programs write to the source: events per second, compared with Hive's own
cycles, and the lag.

Both replicate the same batches of events of one database, in turn. Tideline's time includes reading the
source's log, encoding and decoding records, and all calls, but not the topic, which ``bench.events``
measures. Hive's time is that of REPL DUMP and REPL LOAD in the engines.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Final

from bench.events.environment import make_name, open_stack, run_daemon, say
from bench.events.visibility import TargetWatch, run_load
from bench.events.writer import Writer
from bench.replication.hive_cycles import HiveCycles, report
from bench.replication.mixed_writer import EVENTS_PER_INSERT, MixedWriter
from bench.replication.policies import LocalPolicy, open_policy
from bench.report import Row, row
from dev.stack.endpoints import Endpoints
from dev.stack.errors import SqlFailed


ROUNDS: Final = 2
RIVAL: Final = "REPL DUMP and LOAD"
MIXED_TIMES: Final = 5
METADATA_TIMES: Final = 10
EVENTS_PER_S: Final = 50
INSERTS_PER_S: Final = 8
LAG_MAX_S: Final = 5


def cases(quick: bool) -> Iterator[Row]:
    with open_stack(engines=True) as endpoints:
        yield from compare_with_hive(endpoints, events=60 if quick else 300)


def lag_cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints:
        yield from measure_lag(endpoints, seconds=10.0 if quick else 30.0)


def compare_with_hive(endpoints: Endpoints, *, events: int) -> Iterator[Row]:
    db = make_name("incremental")
    uri = endpoints.source.metastore
    with open_policy(endpoints, db) as policy, MixedWriter(uri, db) as writer:
        writer.create()
        writer.write_mix(20)
        replicate(policy)
        with HiveCycles(endpoints, db) as hive:
            say(f"incremental: {ROUNDS} rounds of {events} events of each kind")
            hive.run()
            kinds = (
                ("incremental_mix", writer.write_mix, MIXED_TIMES),
                ("incremental_metadata", writer.write_metadata, METADATA_TIMES),
            )
            for case, write, times in kinds:
                yield measure_rounds(case, policy, hive, partial(write, events), times)


def measure_rounds(
    case: str, policy: LocalPolicy, hive: HiveCycles, write: Callable[[], int], times: float
) -> Row:
    """Write and replicate in both ways several times; compare the medians of the milliseconds per event."""
    own: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        caused = write()
        own.append(replicate(policy) / caused * 1_000)
        try:
            theirs.append(hive.run().seconds / caused * 1_000)
        except SqlFailed as problem:
            report(problem)
    rival = (RIVAL, statistics.median(theirs)) if theirs else None
    limit = times if rival is not None else None
    return row(case, statistics.median(own), "ms/event", times=limit, rival=rival)


def replicate(policy: LocalPolicy) -> float:
    """Return the seconds until all events in the source's log are applied."""
    began_s = time.perf_counter()
    policy.apply(policy.read_events())
    policy.projection.settle()
    seconds = time.perf_counter() - began_s
    assert not policy.projection.quarantined(), policy.projection.failures()
    return seconds


def measure_lag(endpoints: Endpoints, *, seconds: float) -> Iterator[Row]:
    """Run a daemon while the source logs inserts and metadata changes at a fixed rate; measure when the
    inserts become visible.
    """
    db = make_name("lag")
    uri = endpoints.source.metastore
    with run_daemon(endpoints, db) as replicator, MixedWriter(uri, db) as writer:
        writer.create()
        with closing(Writer(uri, db)) as first:
            first.insert()
        watch = TargetWatch(endpoints.target.metastore, replicator)
        metadata = MetadataLoad(writer, EVENTS_PER_S - INSERTS_PER_S * EVENTS_PER_INSERT, seconds)
        say(f"lag: {EVENTS_PER_S} events/s for {seconds:g} s")
        metadata.thread.start()
        load, times = run_load(endpoints, db, watch, per_s=INSERTS_PER_S, seconds=seconds)
        metadata.thread.join()
    yield row("lag_p99", statistics.quantiles(times, n=100)[98], "s", at_most=LAG_MAX_S)
    yield row("lag_p50", statistics.median(times), "s")
    yield row("lag_rate", load.actual_per_s * EVENTS_PER_INSERT + metadata.actual_per_s, "events/s")


class MetadataLoad:
    """Changes metadata at a fixed rate in a thread. A late change does not delay the following ones."""

    def __init__(self, writer: MixedWriter, per_s: float, seconds: float) -> None:
        self.thread = threading.Thread(target=self._run, name="metadata")
        self.actual_per_s = 0.0
        self._writer, self._per_s, self._count = writer, per_s, round(per_s * seconds)

    def _run(self) -> None:
        began_s = time.monotonic()
        for number in range(self._count):
            time.sleep(max(0.0, began_s + number / self._per_s - time.monotonic()))
            self._writer.write_metadata(1)
        self.actual_per_s = self._count / (time.monotonic() - began_s)
