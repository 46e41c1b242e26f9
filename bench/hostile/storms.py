"""Cases of storms: thousands of silent, slow, greedy and half-open clients on every port of a daemon that
replicates (``bench.hostile.storm``).

Transactions are written while the policy is paused. Then the time to apply them is measured, in turn with a
storm and without. Meanwhile, a client requests ``/livez`` ten times a second, and another client calls the
metastore endpoint twice a second, each time on a new connection.
"""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.events.daemon_process import get_pid, read_cpu_s
from bench.events.environment import make_name, open_stack, say, wait_for
from bench.events.visibility import TargetWatch
from bench.events.writer import TABLE, Writer
from bench.report import Row, row
from dev.demo.replicator import Replicator
from dev.stack.endpoints import Endpoints
from handlers.metastore.client import Metastore
from state.errors import TidelineError


LIVEZ_MAX_S: Final = 0.2
SLOWER_MAX: Final = 1.2
MEMORY_MAX_MB: Final = 400
SOURCE: Final = "lake"
ROOT: Final = Path(__file__).parents[2]


def cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints:
        yield from measure_storm(endpoints, rounds=2 if quick else 5, transactions=50 if quick else 300)


def measure_storm(endpoints: Endpoints, *, rounds: int, transactions: int) -> Iterator[Row]:
    """Measure the time to drain a backlog, in turn with a storm and without."""
    db = make_name("storm")
    with run_victim(endpoints, db) as victim, closing(Writer(endpoints.source.metastore, db)) as writer:
        writer.create()
        writer.insert()
        watch = TargetWatch(endpoints.target.metastore, victim.replicator)
        drain(watch, writer, 20)
        calm, stormy = [], []
        livez, calls = Sampler(victim.ask_livez, 0.1), Sampler(victim.call_endpoint, 0.5)
        calm_livez, calm_calls = Sampler(victim.ask_livez, 0.1), Sampler(victim.call_endpoint, 0.5)
        for number in range(1, rounds + 1):
            say(f"storm: round {number} of {rounds}, {transactions} transactions each")
            with calm_livez.running(), calm_calls.running():
                calm.append(drain(watch, writer, transactions))
            with storm(victim.targets), livez.running(), calls.running():
                stormy.append(drain(watch, writer, transactions))
        slowest_s, calm_s = (statistics.median(each.slowest_s) for each in (livez, calm_livez))
        yield _compare("storm_livez_slowest", slowest_s, calm_s)
        yield _compare(
            "storm_livez_max", max(livez.slowest_s), max(calm_livez.slowest_s), at_most=LIVEZ_MAX_S
        )
        yield _compare("storm_livez_p99", livez.percentile_s(99), calm_livez.percentile_s(99))
        yield row("storm_livez_failed", livez.failed, "requests", at_most=0)
        drained_ms, calm_ms = (statistics.median(each.ms for each in runs) for runs in (stormy, calm))
        yield _compare("storm_drain", drained_ms, calm_ms, "ms/txn", times=1 / SLOWER_MAX)
        cpu_ms, calm_cpu_ms = (statistics.median(each.cpu_ms for each in runs) for runs in (stormy, calm))
        yield _compare("storm_drain_cpu", cpu_ms, calm_cpu_ms, "ms/txn")
        yield row("storm_memory", read_peak_mb(get_pid(victim.replicator)), "MB", at_most=MEMORY_MAX_MB)
        yield row("storm_memory_serve", read_peak_mb(victim.endpoint_pid), "MB", at_most=MEMORY_MAX_MB)
        yield _compare("storm_call_p50", calls.percentile_s(50), calm_calls.percentile_s(50))
        yield _compare("storm_call_p99", calls.percentile_s(99), calm_calls.percentile_s(99))
        yield row("storm_call_failed", calls.failed, "calls", at_most=0)


def _compare(case: str, value: float, calm: float, unit: str = "s", **limits: float) -> Row:
    return row(case, value, unit, rival=("without a storm", calm), **limits)


class Victim:
    """A daemon with a policy and a metastore endpoint, and their ports."""

    def __init__(self, replicator: Replicator) -> None:
        self.replicator = replicator
        addresses = json.loads((replicator.directory / "state" / "http.json").read_text())
        self._probes = ("127.0.0.1", addresses["probes_port"])
        listen, self.endpoint_pid = self._find_endpoint()
        self._endpoint = f"thrift://{listen}"
        self.targets = [
            f"{addresses['port']}=http",
            f"{addresses['probes_port']}=http",
            f"{listen.rpartition(':')[2]}=thrift",
        ]

    def ask_livez(self) -> None:
        """Request ``/livez`` like a probe; raise OSError, HTTPException."""
        with closing(http.client.HTTPConnection(*self._probes, timeout=5)) as connection:
            connection.request("GET", "/livez")
            status = connection.getresponse().status
        if status != http.client.OK:
            raise OSError(f"/livez answered {status}")

    def call_endpoint(self) -> None:
        """Make one call on a new connection, like a client that has just started."""
        with Metastore(self._endpoint) as client:
            client.get_database(self.replicator.db)

    def _find_endpoint(self) -> tuple[str, int]:
        found: list[tuple[str, int]] = []

        def is_listening() -> bool:
            status = json.loads(self.replicator.get("/api/v1/status") or b"{}")
            running = [each for each in status.get("endpoints", []) if each["listen"]]
            found.extend((each["listen"], each["pid"]) for each in running)
            return bool(found)

        wait_for(is_listening, "the metastore endpoint listens")
        return found[0]


@contextmanager
def run_victim(endpoints: Endpoints, db: str) -> Iterator[Victim]:
    """Run a daemon for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory:
        replicator = Replicator(endpoints, Path(directory), db=db)
        replicator.config["catalog"] = {SOURCE: {"partitions": {"tables": [f"{db}.*"]}}}
        replicator.config["serve"] = {SOURCE: {"listen": "127.0.0.1:0"}}
        replicator.prepare()
        try:
            replicator.start()
            yield Victim(replicator)
        finally:
            replicator.stop()


@dataclass(frozen=True, slots=True)
class Drained:
    """The wall time and the daemon's processor time of each transaction, in milliseconds."""

    ms: float
    cpu_ms: float


def drain(watch: TargetWatch, writer: Writer, transactions: int) -> Drained:
    """Write transactions while the policy is paused, then resume it and return the time until they are
    applied.
    """
    replicator = watch.replicator
    replicator.command("pause", replicator.db)
    last = max(writer.insert().write_id for _ in range(transactions))
    before_s = read_cpu_s(get_pid(replicator))
    replicator.command("resume", replicator.db)
    with Metastore(watch.uri) as target:
        name = f"{replicator.target_db}.{TABLE}"

        def is_visible() -> bool:
            (valid,) = target.valid_write_ids([name])
            return valid.high_water_mark >= last and last not in {*valid.open, *valid.aborted}

        seconds = wait_for(is_visible, f"write id {last} on the target")
    cpu_s = read_cpu_s(get_pid(replicator)) - before_s
    return Drained(seconds / transactions * 1_000, cpu_s / transactions * 1_000)


@contextmanager
def storm(targets: list[str]) -> Iterator[None]:
    """Run a storm on the ports, in another process, for the duration of the block."""
    command = [sys.executable, "-m", "bench.hostile.storm", *targets]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline(), "the storm did not begin"
        try:
            yield
        finally:
            process.stdin.close()


class Sampler:
    """Repeats a request in a thread with a fixed pause, and keeps the duration of each."""

    def __init__(self, request: Callable[[], None], pause_s: float) -> None:
        self._request, self._pause_s = request, pause_s
        self.seconds: list[float] = []
        self.slowest_s: list[float] = []
        """The longest duration of each block."""
        self.failed = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample for the duration of the block."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._sample, args=(stopping,))
        before = len(self.seconds)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            self.slowest_s.append(max(self.seconds[before:]))

    def percentile_s(self, percent: int) -> float:
        """Return a percentile of the samples, in seconds."""
        return sorted(self.seconds)[len(self.seconds) * percent // 100]

    def _sample(self, stopping: threading.Event) -> None:
        while not stopping.wait(self._pause_s):
            began_s = time.perf_counter()
            try:
                self._request()
            except (OSError, http.client.HTTPException, TidelineError) as error:
                self.failed += 1
                say(f"failed: {error!r}")
            else:
                self.seconds.append(time.perf_counter() - began_s)


def read_peak_mb(pid: int) -> float:
    """Return the peak resident memory of a process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6
