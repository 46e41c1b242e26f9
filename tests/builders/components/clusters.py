"""Two Hive clusters whose directories are on file systems of the test's choice, without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dev.stack.cluster import HiveCluster
from dev.stack.hive.settings import ClusterSettings
from dev.stack.process.owner_watch import OwnerWatch


@dataclass(frozen=True)
class Pair:
    """A source and a target, with their engines running."""

    source: HiveCluster
    target: HiveCluster


def on_file_system(root: str, settings: ClusterSettings | None = None) -> ClusterSettings:
    """Return settings with warehouse, external tables and change manager below ``root``, a directory of any
    file system."""
    given = settings or ClusterSettings()
    directories = {
        "hive.metastore.warehouse.dir": f"{root}/warehouse",
        "hive.metastore.warehouse.external.dir": f"{root}/external",
        "hive.repl.cmrootdir": f"{root}/cmroot",
    }
    return replace(given, extra={**given.extra, **directories})


@contextmanager
def running_pair(directory: Path, source: ClusterSettings, target: ClusterSettings) -> Iterator[Pair]:
    """Run both clusters during the block: four JVMs."""
    pair = Pair(HiveCluster(directory / "source", source), HiveCluster(directory / "target", target))
    with ExitStack() as cleanup:
        cleanup.callback(OwnerWatch(directory).close)
        for cluster in (pair.source, pair.target):
            for component in (cluster.metastore, cluster.engine):
                cleanup.callback(component.stop)
                component.start()
        yield pair
