"""Cases of a Hive 3.1 source, whose write events the relay finds by listings, compared with Hive 4.

The backlog is the same as in ``drain``: transactions with one small file each. Both drains include the relay,
because its work is the difference. They run in turn, with the same target.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.events.environment import make_name, open_stack, say
from bench.events.writer import TABLE, Writer
from bench.replication.policies import LocalPolicy, open_policy
from bench.report import Row, row
from daemon.sources.outbox import Outbox
from daemon.sources.outgoing_events import OutboxSettings
from daemon.sources.unlogged_partitions import UnloggedPartitions
from dev.stack.cluster import HiveCluster
from dev.stack.downloads.jars import fetch, find_missing
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.java_build import HIVE_3, read_hive_lock
from dev.stack.hive.settings import ClusterSettings
from handlers.decoding.decoder import decode
from handlers.files.filesystems import Entry, FileSystems
from handlers.files.paths import AllowedRoots, Location
from handlers.files.systems.local import LocalFiles
from handlers.metastore.client import Metastore
from handlers.structs.notifications import InsertEventRequestData


ROUNDS: Final = 5
RATIO_MIN: Final = 0.5
LISTINGS_MAX: Final = 2


def cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints, _open_hive_3() as old:
        yield from measure(endpoints, replace(endpoints, source=old), each_round=20 if quick else 100)


@contextmanager
def _open_hive_3() -> Iterator[ClusterEndpoints]:
    """Run a metastore of Hive 3.1 during the block."""
    say("starting a Hive 3.1 metastore")
    jars = read_hive_lock(HIVE_3)
    if find_missing(jars):
        fetch(jars, find_repository())
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory:
        cluster = HiveCluster(Path(directory), ClusterSettings(hive=HIVE_3))
        cluster.metastore.start()
        try:
            layout = cluster.metastore.layout
            yield ClusterEndpoints(
                cluster.metastore.uri, "", str(layout.warehouse), str(layout.external), str(layout.cmroot)
            )
        finally:
            cluster.metastore.stop()


def measure(new: Endpoints, old: Endpoints, *, each_round: int) -> Iterator[Row]:
    """Write a backlog on both sources, then drain both in rounds."""
    say(f"drain from 3.1: {ROUNDS + 1} rounds of {each_round} transactions")
    with ExitStack() as closing_all:
        drains = []
        for endpoints, writer in ((new, Writer), (old, OldWriter)):
            db = make_name("drain31")
            policy = closing_all.enter_context(open_policy(endpoints, db))
            drains.append(Drain.begin(endpoints, db, policy, writer, each_round))
            closing_all.callback(drains[-1].outbox.close)
        for drain in drains:
            drain.run()
            drain.files.listings = 0
        times_ms: dict[int, list[float]] = {0: [], 1: []}
        for _ in range(ROUNDS):
            for number, drain in enumerate(drains):
                times_ms[number].append(drain.run() / each_round * 1_000)
        listings = [drain.files.listings / (ROUNDS * each_round) for drain in drains]
    rival = ("drain from Hive 4.2", statistics.median(times_ms[0]))
    value = statistics.median(times_ms[1])
    yield row("drain_small_from_3_1", value, "ms/txn", times=RATIO_MIN, rival=rival)
    yield row("listings_per_commit_3_1", listings[1] - listings[0], "calls", at_most=LISTINGS_MAX)


class CountingFiles(LocalFiles):
    """A local file system that counts the relay's listings."""

    listings = 0

    def list(self, location: Location) -> Sequence[Entry]:
        """Return the children of a directory."""
        self.listings += 1
        return super().list(location)


@dataclass
class Drain:
    """A backlog of one source, with the relay's reader of the log and the policy that applies the events."""

    outbox: Outbox
    policy: LocalPolicy
    ends: list[int]
    files: CountingFiles

    @classmethod
    def begin(
        cls, endpoints: Endpoints, db: str, policy: LocalPolicy, kind: type[Writer], each_round: int
    ) -> Drain:
        """Write the backlog."""
        writer, ends = kind(endpoints.source.metastore, db), []
        with Metastore([endpoints.source.metastore]) as metastore:
            writer.create()
            for _ in range(ROUNDS + 1):
                for _ in range(each_round):
                    writer.insert()
                ends.append(metastore.current_event_id())
        writer.close()
        files = CountingFiles()
        systems = FileSystems({"file": lambda _authority, _options: files})
        roots = AllowedRoots.of(
            Path(root).as_uri() for root in (endpoints.source.warehouse, endpoints.source.cmroot)
        )
        outbox = Outbox(
            Metastore([endpoints.source.metastore]).clone,
            OutboxSettings(source="bench"),
            hard_bytes_max=1 << 20,
            unlogged=UnloggedPartitions({db}, systems, roots),
        )
        return cls(outbox, policy, ends[::-1], files)

    def run(self) -> float:
        """Return the seconds of one round."""
        upto = self.ends.pop()
        began_s = time.perf_counter()
        records = self.outbox.records(self.policy.read + 1, upto)
        self.policy.apply([decode(record.value, record.headers) for record in records])
        self.policy.read = upto
        return time.perf_counter() - began_s


class OldWriter(Writer):
    """A writer that makes the metastore calls of an insert by Hive 3.1."""

    # ARG002: the event names neither
    def _log_files(self, txn: int, write_id: int, written: InsertEventRequestData) -> None:  # noqa: ARG002
        self._metastore.fire_insert_event(self._db, TABLE, written)
