"""Compares verified copies with a plain parallel copy of the same files by the same number of threads, on
disk and from HDFS to HDFS. The plain copy only reads and writes: ``shutil.copyfile`` on disk, the same HDFS
client on HDFS. It verifies no checksum and writes under the final name. On disk, it waits until each file is
durable, and at the end until the names are durable. Hive records no checksums for files on disks; in the rows
``disk_md5``, files have the MD5s that the test stack records. Both ways run in turn, and the rows compare
medians. ``--quick`` copies a quarter of the files. HDFS is a NameNode and a DataNode on this machine. Copy
jobs of Spark (rows ``spark``) start a JVM, as does their rival, Hadoop's DistCp.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.copy_jobs import DiskJobs
from bench.report import Row, main, row
from dev.stack.servers.hdfs import Hdfs
from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems


WORKERS: Final = 8
ROUNDS: Final = 3
CHUNK: Final = 1 << 20
RATIO_MIN: Final = 0.9
SHAPES: Final = {"large": (16, 32 << 20), "small": (256, 20_000)}
"""Number of files and bytes of each: base files and deltas of small transactions."""


@dataclass(frozen=True)
class Place:
    """A file system with the files to copy, and functions that remove a copy and copy one file plainly."""

    name: str
    sources: Sequence[SourceFile]
    out: str
    clear: Callable[[], None]
    copy: Callable[[str, str], None]
    settle: Callable[[], None]
    """Makes the names of plain copies durable."""
    limited: bool = True
    """Whether the ratio has a limit."""


def disk_cases(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tideline-copies-") as scratch:
        for shape, (count, size_bytes) in SHAPES.items():
            for recorded in (False, True):
                place = on_disk(
                    Path(scratch) / f"{shape}-{recorded}", cut(count, quick), size_bytes, recorded=recorded
                )
                yield from measure(place, shape)


def hdfs_cases(quick: bool) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="tideline-copies-") as scratch,
        Hdfs(Path(scratch) / "hdfs") as hdfs,
    ):
        for shape, (count, size_bytes) in SHAPES.items():
            yield from measure(on_hdfs(hdfs, shape, cut(count, quick), size_bytes), shape)


def spark_cases(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="tideline-copies-") as scratch:
        for shape, (count, size_bytes) in SHAPES.items():
            number = cut(count, quick)
            place = on_disk(Path(scratch) / shape, number, size_bytes, recorded=False)
            jobs = DiskJobs(place.sources, size_bytes, place.out, place.clear)
            yield from jobs.rows(shape, partial(copy_plainly, place))


def cut(count: int, quick: bool) -> int:
    return max(1, count // 4) if quick else count


def measure(place: Place, shape: str) -> Iterator[Row]:
    """Copy all files in both ways in turn. Each round begins without copies."""
    own, plain = [], []
    for _ in range(ROUNDS):
        place.clear()
        plain.append(copy_plainly(place))
        place.clear()
        own.append(copy_verified(place))
    rival = ("plain parallel copy", statistics.median(plain))
    limit = RATIO_MIN if place.limited else None
    yield row(f"{place.name}_{shape}", statistics.median(own), "s", times=limit, rival=rival)


def copy_verified(place: Place) -> float:
    """Return the seconds until all copies exist, without the time for starting and stopping threads."""
    roots = [place.out.rpartition("/")[0]]
    pool = CopyPool(Copier(open_file_systems(), AllowedRoots.of(roots)), workers=WORKERS)
    try:
        started = time.perf_counter()
        pool.wait([pool.submit(CopyTask(source, target_of(place, source))) for source in place.sources])
        elapsed_s = time.perf_counter() - started
        assert (pool.counters().mismatches, pool.counters().skipped) == (0, 0), pool.counters()
    finally:
        pool.close()
    return elapsed_s


def copy_plainly(place: Place) -> float:
    """Return the seconds until all files are copied."""
    with ThreadPoolExecutor(WORKERS) as threads:
        started = time.perf_counter()
        running = [threads.submit(place.copy, each.uri, target_of(place, each)) for each in place.sources]
        for each in running:
            each.result()
        place.settle()
        return time.perf_counter() - started


def target_of(place: Place, source: SourceFile) -> str:
    return f"{place.out}/{source.uri.rpartition('/')[2]}"


def copy_file(source: Path, target: Path) -> None:
    """Copy one file durably, except for its name."""
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def on_disk(directory: Path, count: int, size_bytes: int, *, recorded: bool) -> Place:
    """Provide files on disk, without checksums or with recorded ones."""
    (directory / "in").mkdir(parents=True)
    sources = []
    for number in range(count):
        file, content = directory / "in" / f"f{number}", os.urandom(size_bytes)
        file.write_bytes(content)
        checksum = hashlib.md5(content, usedforsecurity=False).hexdigest() if recorded else None
        sources.append(SourceFile(f"file:{file}", checksum))
    out, removed = directory / "out", itertools.count()

    def clear() -> None:
        if size_bytes > CHUNK:
            shutil.rmtree(out, ignore_errors=True)
        elif out.exists():
            # ext4 does not reuse the inodes of files that were removed in the last minutes, and would search
            # past them for each new file.
            out.rename(directory / f"removed{next(removed)}")
        out.mkdir()
        os.sync()

    def copy(source: str, target: str) -> None:
        copy_file(Path(source.removeprefix("file:")), Path(target.removeprefix("file:")))

    def settle() -> None:
        names = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(names)
        finally:
            os.close(names)

    name = "disk_md5" if recorded else "disk"
    return Place(name, sources, f"file:{out}", clear, copy, settle, limited=not recorded)


def on_hdfs(hdfs: Hdfs, shape: str, count: int, size_bytes: int) -> Place:
    """Provide files on HDFS, which has its own checksums."""
    import hdfs_native

    client = hdfs_native.Client(hdfs.uri)
    root, content = f"/{shape}", os.urandom(size_bytes)

    def write(number: int) -> SourceFile:
        path = f"{root}/in/f{number}"
        with client.create(path, hdfs_native.WriteOptions(create_parent=True)) as file:
            file.write(content)
        return SourceFile(hdfs.uri + path, _checksum_of(hdfs, path), f"{hdfs.uri}{root}/cmroot")

    def copy(source: str, target: str) -> None:
        options = hdfs_native.WriteOptions(create_parent=True)
        with (
            client.read(source.removeprefix(hdfs.uri)) as reader,
            client.create(target.removeprefix(hdfs.uri), options) as writer,
        ):
            while data := reader.read(CHUNK):
                writer.write(data)

    def clear() -> None:
        client.delete(f"{root}/out", recursive=True)
        client.mkdirs(f"{root}/out", 0o755, create_parent=True)

    client.mkdirs(f"{root}/out", 0o755, create_parent=True)
    with ThreadPoolExecutor(WORKERS) as threads:
        sources = list(threads.map(write, range(count)))
    return Place("hdfs", sources, f"{hdfs.uri}{root}/out", clear, copy, lambda: None)


def _checksum_of(hdfs: Hdfs, path: str) -> str:
    http = hdfs.name_node.properties["dfs.namenode.http-address"]
    # S310: a fixed scheme
    with urllib.request.urlopen(f"http://{http}/webhdfs/v1{path}?op=GETFILECHECKSUM", timeout=30) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)["FileChecksum"]
    return str(found["bytes"])[:56]


if __name__ == "__main__":
    main("copies", {"disk": disk_cases, "hdfs": hdfs_cases, "spark": spark_cases})
