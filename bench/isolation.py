"""What policies in trouble cost the others of their daemon.

Twenty policies follow writers at 20 transactions per second, first alone, then beside three others: the
target of one is off, the state disk of one is full, and a table of ``FILES`` files of one is being loaded.
The disk is a file system in memory, which only root may mount; otherwise that policy is left out. ``visible``
is the latency of the twenty, as in the benchmark ``policies``; its limit is 1.2 times that without the three.
``--quick`` measures for a shorter time.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

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
from handlers.metastore.client import Metastore


POLICIES: Final = 20
PER_S: Final = 20
FILES: Final = 20_000
FOLLOWS_S: Final = 300.0
_UNWRITTEN: Final = 20
"""Commits that the full disk meets."""


def cases(quick: bool) -> Iterator[Row]:
    seconds = 15.0 if quick else 60.0
    with open_stack() as endpoints:
        alone = measure(endpoints, seconds, in_trouble=False)
        beside = measure(endpoints, seconds, in_trouble=True)
    for name, index in (("p50", 49), ("p99", 98)):
        before_s, after_s = (statistics.quantiles(each, n=100)[index] for each in (alone, beside))
        yield row(f"visible_{name}", after_s, "s", times=1 / 1.2, rival=("alone", before_s))


def measure(endpoints: Endpoints, seconds: float, *, in_trouble: bool) -> list[float]:
    """Return the latencies of the commits."""
    say(f"isolation: {'beside policies in trouble' if in_trouble else 'alone'}")
    prefix = make_name("isolation")
    dbs = [f"{prefix}_{number}" for number in range(POLICIES)]
    off, full, large = (f"{prefix}_{name}" for name in ("off", "full", "large"))
    with (
        closing(WritingMetastore(endpoints.source.metastore)) as source,
        Metastore(endpoints.target.metastore) as target,
        small_disk() as disk,
    ):
        writers = {db: Writer(source, db) for db in (*dbs, off, full, large)}
        for writer in writers.values():
            writer.create()
        commits = [writers[db].insert() for db in (*dbs, full)]
        write_files(source, writers[large], large)

        def add(replicator: Replicator) -> None:
            if in_trouble:
                add_policies(replicator, off, full if disk else None, large)
                if disk:
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
            load = Load(build, per_s=PER_S, seconds=seconds, writers=WRITERS)
            load.start()
            await_visible(replicator, visible, load)
        return [visible.seen[commit.db, commit.write_id] - commit.asked_s for commit in load.commits]


def add_policies(replicator: Replicator, off: str, full: str | None, large: str) -> None:
    """Add the policies that will be in trouble."""
    config = replicator.config
    config["targets"]["off"] = {"metastore": ["thrift://127.0.0.1:1"]}
    policy = next(iter(config["policies"].values()))
    targets = {off: "off", full: policy["target"], large: policy["target"]}
    for db, target in targets.items():
        if db is not None:
            names = {"database": db, "target_database": name_on_target(db)}
            config["policies"][db] = {**policy, **names, "target": target}


def write_files(source: WritingMetastore, writer: Writer, db: str) -> None:
    """Insert a row, with many more files in its directory."""
    commit = writer.insert()
    location = str(source.get_table(db, "t").sd.location).removeprefix("file:")
    (written,) = Path(location).glob(f"delta_{commit.write_id:07}_*/bucket_*")
    for number in range(1, FILES):
        shutil.copyfile(written, written.with_name(f"bucket_{number:05}_0"))


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
    """Take all free space."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


if __name__ == "__main__":
    main("isolation", cases)
