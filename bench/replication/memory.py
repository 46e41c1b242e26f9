"""Cases of memory: the peak of a process that loads a table of a million partitions, and that of a process
that replays a transaction with 100,000 partitions.

Each case runs in its own process, with synthetic metastores, because real ones would take an hour to create
such a table. No file is copied, but every copy goes through the copy pool. The state is in SQLite, as in the
daemon. ``python -m bench.replication.memory CASE COUNT`` prints the peak in MB (10^6 bytes).
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.events.environment import say
from bench.replication.synthetic_metastore import DB, TABLE, SyntheticMetastore, build_source, name_partition
from bench.report import Row, row
from dev.fixtures.memory_source import embedded
from handlers.events import Event, FilesWritten, PartitionsAdded, SourceFile, TxnCommitted, WriteIdsAllocated
from handlers.files.copying.copies import Copied, Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.context import Context
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.observer import SilentObserver
from handlers.replication.policy.policy import Policy
from handlers.replication.projection import ReplicationProjection
from handlers.replication.target.target_position import TargetPosition
from handlers.structs import tjson
from handlers.structs.objects import Partition, Table
from state.store.sqlite import SqliteStore


LIMIT_MB: Final = 400
BATCH_EVENTS: Final = 500
ADDED_AT_ONCE: Final = 100
ROOT: Path = Path(__file__).parents[2]


def transaction_cases(quick: bool) -> Iterator[Row]:
    yield measure("memory_transaction", 5_000 if quick else 100_000)


def policy_cases(quick: bool) -> Iterator[Row]:
    yield measure("memory_policy", 5_000 if quick else 1_000_000)


def measure(case: str, count: int) -> Row:
    """Run a case in its own process."""
    say(f"{case}: {count} partitions")
    command = [sys.executable, "-m", "bench.replication.memory", case, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return row(case, float(done.stdout), "MB", at_most=LIMIT_MB)


class NoCopier(Copier):
    """A copier that copies nothing."""

    def publish(self, *_: Any, **__: Any) -> Copied:
        """Report the copy as done."""
        return Copied(size_bytes=1, from_change_manager=False, skipped=False, seconds=0.0)

    def settle(self, *_: Any) -> None:
        """Do nothing, because nothing was written."""


def load_policy(directory: Path, count: int) -> None:
    """Bootstrap a policy whose only table has ``count`` partitions, and replicate only metadata."""
    source = build_source(f"{directory}/source", count)
    target = SyntheticMetastore(f"{directory}/target")
    projection = open_projection(directory, source, target, metadata_only=("*",))
    assert (projection.quarantined(), target.added) == ((), count)
    projection.close()


def replay_transaction(directory: Path, count: int) -> None:
    """Replay the events of a transaction that adds ``count`` partitions with one file each."""
    source = build_source(f"{directory}/source")
    target = SyntheticMetastore(f"{directory}/target")
    projection = open_projection(directory, source, target)
    batch: list[Event] = []
    for event in make_events(source, count):
        batch.append(event)
        if len(batch) == BATCH_EVENTS:
            projection.apply(batch)
            batch = []
    projection.apply(batch)
    assert (projection.quarantined(), target.added) == ((), count)
    projection.close()


def open_projection(
    directory: Path, source: SyntheticMetastore, target: SyntheticMetastore, **options: Any
) -> ReplicationProjection:
    """Bootstrap the policy and open it."""
    any_source: Any = source
    any_target: Any = target
    policy = Policy(name=DB, source_db=DB, target_db=f"{DB}_replica", **options)
    files = open_file_systems()
    position = TargetPosition(any_target, policy)
    copier = NoCopier(files, AllowedRoots.of([f"file:{directory}/source"]), guard=position.require_held)
    context = Context.between(
        any_source,
        position,
        policy,
        copies=CopyPool(copier),
        files=files,
        observer=SilentObserver(),
    )
    store = SqliteStore(directory / "state.db", schema_version=1)
    begin_bootstrap(source=any_source, target=any_target, policy=policy, store=store)
    projection = ReplicationProjection(source_name="bench", context=context, store=store)
    projection.open()
    return projection


def make_events(source: SyntheticMetastore, count: int) -> Iterator[Event]:
    """Yield the events of one transaction: its write id, ADD_PARTITIONs, a write event for each partition,
    and the commit.
    """
    table = source.get_table(DB, TABLE)
    yield WriteIdsAllocated(
        event_id=1, time_s=0, kind="ALLOC_WRITE_ID_EVENT", db=DB, table=TABLE, pairs=((1, 1),)
    )
    event_id = 1
    for start in range(0, count, ADDED_AT_ONCE):
        event_id += 1
        partitions = [make_partition(source, n) for n in range(start, min(count, start + ADDED_AT_ONCE))]
        yield PartitionsAdded(
            event_id=event_id,
            time_s=0,
            kind="ADD_PARTITION",
            db=DB,
            table=TABLE,
            owner=embedded(Table, table),
            partitions=tuple(embedded(Partition, each) for each in partitions),
        )
    yield from make_writes(source, event_id + 1, count)
    yield TxnCommitted(
        event_id=event_id + 1,
        part=count,
        parts=count + 1,
        time_s=0,
        kind="COMMIT_TXN",
        txn_id=1,
        enriched=True,
    )


def make_writes(source: SyntheticMetastore, event_id: int, count: int) -> Iterator[Event]:
    owner_text = tjson.encode(source.get_table(DB, TABLE))
    for number in range(count):
        partition = make_partition(source, number)
        subdir = "delta_0000001_0000001_0000"
        uri = f"{partition.sd.location}/{subdir}/bucket_00000_0"
        yield FilesWritten(
            event_id=event_id,
            part=number,
            parts=count + 1,
            time_s=0,
            kind="WRITE",
            db=DB,
            table=TABLE,
            txn_id=1,
            write_id=1,
            partition_name=name_partition(number),
            files=(SourceFile(uri, "0" * 32, None, subdir),),
            raw_files=(f"{uri}#{'0' * 32}##{subdir}",),
            owner_text=owner_text,
            partition_text=tjson.encode(partition),
        )


def make_partition(source: SyntheticMetastore, number: int) -> Partition:
    partition = source.get_partition_by_name(DB, TABLE, name_partition(number))
    partition.writeId = 1
    return partition


CASES: Final[dict[str, Callable[[Path, int], None]]] = {
    "memory_policy": load_policy,
    "memory_transaction": replay_transaction,
}


def main(case: str, count: int) -> None:
    with TemporaryDirectory(prefix="tideline-bench-") as directory:
        CASES[case](Path(directory), count)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
