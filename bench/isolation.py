"""Measures the effect of failing and loading policies on the other policies of their daemon.

Twenty policies follow writers at 20 transactions per second. ``visible`` is their latency, measured as in the
benchmark ``policies``, while two more policies fail: one with a stopped target, and one with a full state
disk. The disk is a file system in memory, which only root may mount; without root, the benchmark omits that
policy. ``visible_loading`` is the latency while one more policy loads a table of ``FILES`` files. The limit
of both is 1.2 times the latency of the twenty policies alone.

Copies share the disk and the processor with the metastores. ``visible_copying`` shows how much of the latency
this explains: no policy loads, but another process copies the same files durably with the same number of
threads, which run only when a processor has nothing else to do.

A single pause of a metastore delays more than one in a hundred commits. So each case is measured in
``ROUNDS`` rounds of 20 s, in turn with the others, and a figure is the median over the rounds. A first
measurement warms up the metastores and does not count. ``--quick`` has one round.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from enum import Enum
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.copies import copy_file
from bench.events.environment import make_name, open_stack, say, wait_for
from bench.events.writer import Load, Writer
from bench.policies import (
    WRITERS,
    SpreadWriter,
    VisibleWrites,
    await_visible,
    name_on_target,
    run_policies,
)
from bench.report import Row, main, row
from dev.demo.replicator import Replicator
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from handlers.files.copying.pool import WORKERS_DEFAULT
from handlers.metastore.client import Metastore


POLICIES: Final = 20
PER_S: Final = 20
FILES: Final = 20_000
ROUNDS: Final = 5
ROUND_S: Final = 20.0
FOLLOWS_S: Final = 300.0
_UNWRITTEN: Final = 20
"""Commits that a policy with a full disk cannot record."""


class Beside(Enum):
    """What happens next to the twenty policies."""

    NOTHING = "alone"
    TROUBLE = "beside a dead target and a full disk"
    LOAD = "beside a load"
    PROCESS = "beside another process that copies the files"


def cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints:
        measure(endpoints, Beside.NOTHING)
        rounds = [
            {beside: statistics.quantiles(measure(endpoints, beside), n=100) for beside in Beside}
            for _ in range(1 if quick else ROUNDS)
        ]
    for name, index in (("p50", 49), ("p99", 98)):
        found = {beside: statistics.median(each[beside][index] for each in rounds) for beside in Beside}
        alone = (Beside.NOTHING.value, found[Beside.NOTHING])
        yield row(f"visible_{name}", found[Beside.TROUBLE], "s", times=1 / 1.2, rival=alone)
        yield row(f"visible_loading_{name}", found[Beside.LOAD], "s", times=1 / 1.2, rival=alone)
        yield row(f"visible_copying_{name}", found[Beside.PROCESS], "s", rival=alone)


def measure(endpoints: Endpoints, beside: Beside) -> list[float]:
    """Return the latencies of the commits."""
    say(f"isolation: {beside.value}")
    prefix = make_name("isolation")
    dbs = [f"{prefix}_{number}" for number in range(POLICIES)]
    off, full, large = (f"{prefix}_{name}" for name in ("off", "full", "large"))
    in_trouble = beside is Beside.TROUBLE
    with (
        closing(WritingMetastore(endpoints.source.metastore)) as source,
        Metastore(endpoints.target.metastore) as target,
        small_disk() as disk,
    ):
        writers = {db: Writer(source, db) for db in (*dbs, off, full, large)}
        for writer in writers.values():
            writer.create()
        commits = [writers[db].insert() for db in (*dbs, full)]
        files = write_files(source, writers[large], large)
        os.sync()  # the disk would write these files while the others are measured

        def add(replicator: Replicator) -> None:
            if beside is Beside.LOAD:
                add_policies(replicator, {large: None})
            if in_trouble:
                add_policies(replicator, {off: "off"} | ({full: None} if disk else {}))
            if in_trouble and disk:
                state = Path(replicator.config["state"]["dir"])
                state.mkdir(mode=0o700)
                (state / f"replication-{full}.db").symlink_to(disk / "state.db")

        with run_policies(endpoints, dbs, add) as replicator:
            visible = VisibleWrites(target)
            wanted = commits if in_trouble and disk else commits[:-1]

            def is_following() -> bool:
                visible.poll(wanted)
                return not visible.find_missing(wanted)

            wait_for(is_following, "policies follow", within_s=FOLLOWS_S)
            if disk:
                fill(disk)
            for _ in range(_UNWRITTEN):
                writers[full].insert()
            build = partial(SpreadWriter, endpoints.source.metastore, cycle(dbs))
            load = Load(build, per_s=PER_S, seconds=ROUND_S, writers=WRITERS)
            with copying(files) if beside is Beside.PROCESS else nullcontext():
                load.start()
                await_visible(replicator, visible, load)
        return [visible.seen[commit.db, commit.write_id] - commit.asked_s for commit in load.commits]


def add_policies(replicator: Replicator, targets: Mapping[str, str | None]) -> None:
    """Add a policy for each database, with the given target or, for None, that of the other policies."""
    config = replicator.config
    config["targets"]["off"] = {"metastore": ["thrift://127.0.0.1:1"]}
    policy = next(iter(config["policies"].values()))
    for db, target in targets.items():
        names = {"database": db, "target_database": name_on_target(db)}
        config["policies"][db] = {**policy, **names, "target": target or policy["target"]}


def write_files(source: WritingMetastore, writer: Writer, db: str) -> Path:
    """Insert a row, and write many more files into its directory; return the directory."""
    commit = writer.insert()
    location = str(source.get_table(db, "t").sd.location).removeprefix("file:")
    (written,) = Path(location).glob(f"delta_{commit.write_id:07}_*/bucket_*")
    for number in range(1, FILES):
        shutil.copyfile(written, written.with_name(f"bucket_{number:05}_0"))
    return written.parent


@contextmanager
def copying(files: Path) -> Iterator[None]:
    """Copy the files of a directory in another process during the block."""
    with tempfile.TemporaryDirectory(dir=files.parent) as directory:
        process = get_context("spawn").Process(target=copy_durably, args=(files, Path(directory)))
        process.start()
        try:
            yield
        finally:
            process.join()


def copy_durably(files: Path, directory: Path) -> None:
    """Copy all files to a directory, with as many threads as a daemon uses."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with ThreadPoolExecutor(WORKERS_DEFAULT) as threads:
        list(threads.map(lambda file: copy_file(file, directory / file.name), files.iterdir()))


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """Mount a file system of one MB during the block; None if this user may not mount."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-disk-") as directory:
        command = ("mount", "-t", "tmpfs", "-o", "size=1m", "tideline-bench", directory)
        if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
            yield None
            return
        try:
            yield Path(directory)
        finally:
            subprocess.run(("umount", "--lazy", directory), check=True)


def fill(disk: Path) -> None:
    """Use up all free space of a directory's file system."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


if __name__ == "__main__":
    main("isolation", cases)
