"""A Hive 3.1 with ACID writes as a source: metastore with compactor, SQL engine, and what tests do with
them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from dev.stack.cluster import HiveCluster
from dev.stack.downloads.jars import fetch, find_missing
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.errors import SqlFailed
from dev.stack.hive.java_build import HIVE_3, read_hive_lock
from dev.stack.hive.postgres import open_postgres
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from dev.stack.process.owner_watch import OwnerWatch
from dev.stack.servers.hdfs import Hdfs
from handlers.metastore.client import Metastore
from handlers.structs.transactions import CompactionType
from tests.builders.components.hdfs_files import on_hdfs


SELDOM: Final = {"hive.compactor.check.interval": "3600s"}
"""The initiator runs at the start only. Each round would forget aborted write ids without files, and request
compactions."""
ON: Final = os.environ.get("TIDELINE_HIVE_3_ON", "")
"""See ``running_hive_3``."""
COMPACTION_S: Final = 90.0
POLL_S: Final = 0.2
UNREADABLE: Final = "Two readers for"
"""Hive 3.1 cannot read a table row by row after its minor compaction has written deletions twice (reference:
hive-3.1-source.md §3). Its vectorized reader can."""


class CompactionFailed(Exception):
    """Hive could not compact a table."""


@contextmanager
def running_hive_3(directory: Path, on: str = ON) -> Iterator[HiveCluster]:
    """Run a cluster during the block: two JVMs with heaps of at most 512 and 1500 MB.

    With ``on`` = "postgres", its database is PostgreSQL; with "hdfs", its directories are on HDFS, which
    takes two more JVMs.
    """
    jars = read_hive_lock(HIVE_3)
    if find_missing(jars):
        fetch(jars, find_repository())
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as cleanup:
        database = cleanup.enter_context(open_postgres()) if on == "postgres" else None
        extra = dict(SELDOM)
        if on == "hdfs":
            extra |= on_hdfs(cleanup.enter_context(Hdfs(directory / "hdfs")).uri, "source")
        settings = ClusterSettings(hive=HIVE_3, compactor=True, extra=extra)
        cluster = HiveCluster(directory, settings, database)
        cleanup.callback(OwnerWatch(directory).close)
        for component in (cluster.metastore, cluster.engine):
            cleanup.callback(component.stop)
            component.start()
        yield cluster


def compact(
    metastore: Metastore,
    db: str,
    table: str,
    kind: CompactionType = CompactionType.MAJOR,
    *,
    partition_name: str | None = None,
) -> None:
    """Compact a table or partition, and wait until the cleaner has removed the replaced directories.

    Raises CompactionFailed.
    """
    answer = metastore.compact(db, table, partition_name=partition_name, kind=kind)
    deadline_s = time.monotonic() + COMPACTION_S
    state = ""
    while state != "succeeded":
        if state in {"failed", "attempted"}:
            raise CompactionFailed(state)
        assert time.monotonic() < deadline_s, state
        time.sleep(POLL_S)
        state = next(each.state for each in metastore.show_compactions() if each.id == answer.id)


def stream(cluster: HiveCluster, db: str, table: str, lines: Sequence[str], *, batch_size: int = 1) -> None:
    """Write lines by Hive's streaming API, each in one transaction; a short-lived third JVM of 300 MB does
    it."""
    engine = cluster.engine
    command = [*engine.jvm("tideline.stack.StreamingWriter", db, table, str(batch_size)), *lines]
    command = [part if not part.startswith("-Xmx") else "-Xmx300m" for part in command]
    with engine.log.open("ab") as log:
        subprocess.run(
            command, env=os.environ | engine.environment(), stdout=log, stderr=log, timeout=120, check=True
        )


def read_row_ids(sql: Session, table: str) -> list[tuple[str, ...]]:
    """Return the rows of a full-ACID table, each after its row id as Hive prints it, sorted."""
    query = f"select row__id, * from {table}"
    try:
        return sorted(sql.rows(query))
    except SqlFailed as error:
        if UNREADABLE not in str(error):
            raise
    sql.run("set hive.fetch.task.conversion=none")
    try:
        return sorted(sql.rows(query))
    finally:
        sql.run("set hive.fetch.task.conversion=more")


def read_rows(sql: Session, table: str) -> list[tuple[str, ...]]:
    """Return the rows of a table, sorted."""
    return sorted(sql.rows(f"select * from {table}"))
