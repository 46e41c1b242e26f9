"""Measures a daemon with many policies: threads, descriptors, connections, processor, memory, and the delay
of commits.

For each number of policies, there are separate databases at the source, with one small transactional table
each, and a separate daemon, which bootstraps one policy for each database. ``follows`` is the time from the
first start of the daemon until all policies are bootstrapped and follow, ``restart`` the time from a later
start until they follow. Counts and idle figures are from the time after the first start, without writes;
``idle_cpu`` includes the process for probes. Then writers insert into one database after another, at 3 and at
20 transactions per second in total; ``rate`` is the rate that they reached. ``cpu_per_event`` is the
processor time of the daemon from the first commit until the last one is visible, including its idle use,
divided by the events that the source logged. ``rss_busy`` is the highest value in that time. Latencies are
measured like ``commit_to_visible`` in the benchmark ``events``, with a poll every 50 ms. ``page`` is the
median time of an answer while nothing is written, ``samples`` the number of metric samples, and ``stop`` the
time from the signal until the daemon has ended. ``--quick`` omits the largest number and measures for a
shorter time.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bench.events.daemon_process import find_probes, get_pid, read_cpu_s, read_rss_mb
from bench.events.environment import make_name, open_stack, say, wait_for
from bench.events.writer import TABLE, Commit, Load, Writer
from bench.report import Row, main, row
from dev.demo.replicator import Replicator
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from dev.stack.errors import ComponentFailed
from handlers.metastore.client import Metastore


NUMBERS: Final = (1, 50, 500)
QUICK_NUMBERS: Final = (1, 20)
RATES_PER_S: Final = (3, 20)
WRITERS: Final = 4
POLL_S: Final = 0.05
PAGES: Final = 7
"""How often each page is requested."""
SETTLE_S: Final = 5.0
"""Time for the remaining work of a start, such as the first reports of the status."""
FOLLOWS_S: Final = 900.0
"""Time limit of bootstraps, and of the commits of a load; the benchmark fails after that."""
TIMES_MAX: Final = {"cpu_per_event_at_20": 1.3, "visible_p99_at_20": 1.5}
"""The limits, as multiples of one policy."""
_ESTABLISHED: Final = "01"


def cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints:
        alone: dict[str, float] = {}
        for number in QUICK_NUMBERS if quick else NUMBERS:
            yield from measure(endpoints, number, alone, seconds=20.0 if quick else 60.0)


def measure(endpoints: Endpoints, number: int, alone: dict[str, float], *, seconds: float) -> Iterator[Row]:
    """Measure a daemon with this number of policies. ``alone`` has the figures of one policy, which the first
    call fills in.
    """
    prefix = make_name(f"policies{number}")
    dbs = [f"{prefix}_{index}" for index in range(number)]
    say(f"policies: {number}")
    with closing(WritingMetastore(endpoints.source.metastore)) as source:
        for writer in (writers := [Writer(source, db) for db in dbs]):
            writer.create()
        commits = [writer.insert() for writer in writers]
        began_s = time.monotonic()
        with run_policies(endpoints, dbs) as replicator, Metastore(endpoints.target.metastore) as target:
            visible = VisibleWrites(target)
            wait_until_following(visible, commits, replicator)
            yield row(f"follows_{number}", time.monotonic() - began_s, "s")
            pid = get_pid(replicator)
            yield row(f"start_cpu_{number}", read_cpu_s(pid), "s")
            time.sleep(SETTLE_S)
            yield from measure_idle(endpoints, pid, number, seconds)
            yield from measure_pages(replicator, number)
            for per_s in RATES_PER_S:
                build = partial(SpreadWriter, endpoints.source.metastore, cycle(dbs))
                load = Load(build, per_s=per_s, seconds=seconds, writers=WRITERS)
                yield from measure_load(replicator, visible, source, load, f"{number}_at_{per_s}", alone)
            began_s = time.monotonic()
            replicator.stop()
            yield row(f"stop_{number}", time.monotonic() - began_s, "s", at_most=5)
            began_s = time.monotonic()
            replicator.start()
            wait_until_following(visible, commits, replicator)
            yield row(f"restart_{number}", time.monotonic() - began_s, "s", at_most=30)


@contextmanager
def run_policies(
    endpoints: Endpoints, dbs: Sequence[str], change: Callable[[Replicator], None] = lambda _: None
) -> Iterator[Replicator]:
    """Run a daemon that bootstraps a policy for each database, for the duration of the block.

    ``change`` may change its configuration.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory:
        replicator = Replicator(endpoints, Path(directory), db=dbs[0])
        (policy,) = replicator.config["policies"].values()
        replicator.config["policies"] = {
            db: {**policy, "database": db, "target_database": name_on_target(db), "bootstrap": "auto"}
            for db in dbs
        }
        change(replicator)
        replicator.write_config()
        try:
            replicator.start()
            yield replicator
        finally:
            replicator.stop()


def name_on_target(db: str) -> str:
    return f"{db}_replica"


def measure_idle(endpoints: Endpoints, pid: int, number: int, seconds: float) -> Iterator[Row]:
    """Measure the daemon while nothing is written."""
    probes = find_probes(pid)
    before_s = read_cpu_s(pid) + read_cpu_s(probes)
    time.sleep(seconds)
    used_s = read_cpu_s(pid) + read_cpu_s(probes) - before_s
    yield row(f"idle_cpu_{number}", used_s / seconds * 100, "%", at_most=3)
    threads, descriptors = (len(list(Path(f"/proc/{pid}/{each}").iterdir())) for each in ("task", "fd"))
    yield row(f"threads_{number}", threads, "", at_most=80)
    yield row(f"descriptors_{number}", descriptors, "", at_most=4 * number + 200)
    addresses = {
        "kafka": endpoints.kafka,
        "source": endpoints.source.metastore,
        "target": endpoints.target.metastore,
    }
    for name, address in addresses.items():
        yield row(f"connections_{name}_{number}", count_connections(pid, read_port(address)), "")
    yield row(f"rss_idle_{number}", read_rss_mb(pid), "MB", at_most=400)


def measure_pages(replicator: Replicator, number: int) -> Iterator[Row]:
    """Measure the status page, the metrics and the status as JSON."""
    for name, path in {"site": "/", "metrics": "/metrics", "json": "/api/v1/status"}.items():
        times_s = []
        for _ in range(PAGES):
            began_s = time.perf_counter()
            answer = replicator.get(path) or b""
            times_s.append(time.perf_counter() - began_s)
        yield row(f"page_{name}_{number}", statistics.median(times_s) * 1000, "ms", at_most=100)
        if name == "metrics":
            lines = answer.decode().splitlines()
            samples = sum(not line.startswith("#") for line in lines)
            yield row(f"samples_{number}", samples, "", at_most=2_000)


def measure_load(
    replicator: Replicator,
    visible: VisibleWrites,
    source: Metastore,
    load: Load,
    case: str,
    alone: dict[str, float],
) -> Iterator[Row]:
    """Write at a fixed rate, and measure the daemon until all commits are visible."""
    say(f"policies: {case}")
    pid = get_pid(replicator)
    first_event, before_s = source.current_event_id(), read_cpu_s(pid)
    load.start()
    rss_mb = await_visible(replicator, visible, load)
    cpu_s, events = read_cpu_s(pid) - before_s, source.current_event_id() - first_event
    latencies_s = [visible.seen[commit.db, commit.write_id] - commit.asked_s for commit in load.commits]
    yield row(f"rss_busy_{case}", rss_mb, "MB", at_most=600)
    number, _, rate = case.partition("_")
    values = {
        "cpu_per_event": (cpu_s / events * 1000, "ms"),
        "visible_p50": (statistics.median(latencies_s), "s"),
        "visible_p99": (statistics.quantiles(latencies_s, n=100)[98], "s"),
    }
    for name, (value, unit) in values.items():
        one = alone.setdefault(f"{name}_{rate}", value)
        limit = TIMES_MAX.get(f"{name}_{rate}") if int(number) > 1 else None
        yield row(f"{name}_{case}", value, unit, rival=("one policy", one), times=limit and 1 / limit)
    yield row(f"rate_{case}", load.actual_per_s, "txn/s")


def await_visible(replicator: Replicator, visible: VisibleWrites, load: Load) -> float:
    """Wait until all commits of a load are visible.

    Returns the daemon's peak memory during that time, in MB. Raises ComponentFailed on a time-out.
    """
    pid, rss_mb = get_pid(replicator), 0.0
    deadline_s = time.monotonic() + FOLLOWS_S
    while load.running or visible.find_missing(load.commits):
        if time.monotonic() > deadline_s:
            raise ComponentFailed(f"commits did not become visible:\n{replicator.log_tail()}")
        visible.poll(load.commits)
        rss_mb = max(rss_mb, read_rss_mb(pid))
        time.sleep(POLL_S)
    return rss_mb


class SpreadWriter:
    """Inserts into one database after another. The writers of a load share the databases."""

    def __init__(self, uri: str, dbs: Iterator[str]) -> None:
        self._metastore = WritingMetastore(uri)
        self._dbs = dbs
        self._writers: dict[str, Writer] = {}

    def insert(self) -> Commit:
        """Insert into the next database."""
        return self._next()[1].insert()

    def close(self) -> None:
        """Release the connection."""
        self._metastore.close()

    def _next(self) -> tuple[str, Writer]:
        db = next(self._dbs)
        return db, self._writers.setdefault(db, Writer(self._metastore, db))


class VisibleWrites:
    """Records when each write first became visible to readers of the target."""

    def __init__(self, target: Metastore) -> None:
        self.seen: dict[tuple[str, int], float] = {}
        """By database and write id."""
        self._target = target

    def find_missing(self, commits: Collection[Commit]) -> list[Commit]:
        """Return the commits that are not visible yet."""
        return [each for each in list(commits) if (each.db, each.write_id) not in self.seen]

    def poll(self, commits: Collection[Commit]) -> None:
        """Query the tables that have commits which are not visible yet."""
        missing = self.find_missing(commits)
        dbs = sorted({commit.db for commit in missing})
        if not dbs:
            return
        lists = self._target.valid_write_ids([f"{name_on_target(db)}.{TABLE}" for db in dbs])
        now_s, by_db = time.monotonic(), dict(zip(dbs, lists, strict=True))
        for commit in missing:
            if by_db[commit.db].is_visible(commit.write_id):
                self.seen[commit.db, commit.write_id] = now_s


def wait_until_following(visible: VisibleWrites, commits: Sequence[Commit], replicator: Replicator) -> None:
    """Wait until the commit of each database is visible and its policy is followed.

    Raises ComponentFailed on a time-out.
    """

    def is_following() -> bool:
        if visible.find_missing(commits):
            visible.poll(commits)
            time.sleep(POLL_S)
            return False
        status = json.loads(replicator.get("/api/v1/status") or b"{}")
        states = [view["state"] for view in status.get("projections", ())]
        return len(states) == len(commits) and set(states) == {"following"}

    wait_for(is_following, f"{len(commits)} policies follow", within_s=FOLLOWS_S)


def count_connections(pid: int, port: int) -> int:
    """Return the number of TCP connections that a process has to a port of this machine."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            inodes.add(str(link.readlink()))
    return sum(
        f"socket:[{inode}]" in inodes
        for table in ("tcp", "tcp6")
        for remote, state, inode in read_sockets(Path(f"/proc/{pid}/net/{table}"))
        if remote == port and state == _ESTABLISHED
    )


def read_sockets(table: Path) -> Iterator[tuple[int, str, str]]:
    """Yield remote port, state and inode of all sockets in a table of /proc/net."""
    for line in table.read_text().splitlines()[1:]:
        fields = line.split()
        yield int(fields[2].rpartition(":")[2], 16), fields[3], fields[9]


def read_port(address: str) -> int:
    """Return the port of ``thrift://host:port`` or ``host:port``."""
    port = urlsplit(address if "://" in address else f"//{address}").port
    assert port is not None, address
    return port


if __name__ == "__main__":
    main("policies", cases)
