"""A random history of a Hive 3.1 source with compactions that a replica follows, while its daemon, its relay,
the metastores and the broker are killed."""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from dev.stack.cluster import Stack
from dev.stack.errors import StackError
from dev.stack.hive.java_build import HIVE_3
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.components.hive_3 import SELDOM
from tests.builders.daemon.killed_stack import KilledReplica
from tests.builders.replication.hive_3_source import Side, assert_equal_tables
from tests.builders.replication.hive_3_statements import NEVER, TABLES, Hive3Statements
from tests.builders.replication.killed_history import (
    WRITERS,
    abort_abandoned,
    await_ended,
    run_and_kill,
)
from tests.builders.replication.random_writers import RandomWriter
from tests.builders.replication.small_workload import create_source


log = logging.getLogger(__name__)

KILLS: Final = int(os.environ.get("TIDELINE_HIVE_3_KILLS", "12"))
ABANDONED: Final = {
    f"{prefix}.{name}": value
    for prefix in ("metastore", "hive")
    for name, value in (
        ("txn.timeout", "20s"),
        ("timedout.txn.reaper.start", "1s"),
        ("timedout.txn.reaper.interval", "3s"),
    )
}
"""The source soon aborts the transactions of killed metastores, which keep their locks until then."""
READ_EVERY_S: Final = 0.5


def hive_3(extra: Mapping[str, str] | None = None) -> ClusterSettings:
    """Return the settings of the source."""
    return ClusterSettings(hive=HIVE_3, compactor=True, extra={**SELDOM, **ABANDONED, **(extra or {})})


def check_hive_3_history(stack: Stack, seed: int, directory: Path) -> None:
    """Follow a history, and require that both sides end equal, that no table was quarantined, and that no
    reader of the target has seen a row of an aborted transaction."""
    db = f"history_{uuid.uuid4().hex[:8]}"
    with stack.source.sql() as sql:
        create_source(sql, db)
        for name, columns in TABLES.items():
            sql.run(f"create table {db}.{name} {columns}")
    replica = KilledReplica.with_relay(stack, db, directory)
    assert replica.relay is not None
    watch = Watch(stack.target.sql, replica.target_db)
    with replica.relay, replica.daemon:
        watch.start()
        try:
            counts = _write(replica, seed)
        finally:
            watch.stop()
        log.info("kills: %s; statements: %s", replica.kills, _summarize(counts))
        log.info("the target was read %d times", watch.reads)
        abort_abandoned(replica)
        replica.settle()
        await_ended(replica)
        assert_equal(replica)
    assert watch.seen == []
    assert watch.reads > 0


def _write(replica: KilledReplica, seed: int) -> Counter[tuple[str, str]]:
    stop = threading.Event()
    statements = [
        Hive3Statements(replica.db, Random(f"{seed}/{number}"))  # noqa: S311 - repeatable choices of a test
        for number in range(WRITERS)
    ]
    writers = [RandomWriter(each, replica.stack.source.sql, stop) for each in statements]
    return run_and_kill(replica, writers, stop, Random(seed), KILLS)  # noqa: S311 - as above


def _summarize(counts: Counter[tuple[str, str]]) -> dict[str, int]:
    return {
        outcome: sum(count for (_, each), count in counts.items() if each == outcome)
        for outcome in ("done", "failed")
    }


def assert_equal(replica: KilledReplica) -> None:
    """Compare the rows, row ids and highest write ids of all tables.

    Rows of transactions that never committed do not count: Hive 3.1 may forget that they were aborted, and
    show them (reference: hive-3.1-source.md §4).
    """
    source, target = replica.stack.source, replica.stack.target
    with (
        closing(Metastore([source.metastore.uri])) as ours,
        closing(Metastore([target.metastore.uri])) as theirs,
        source.sql() as source_sql,
        target.sql() as target_sql,
    ):
        assert_equal_tables(
            Side(ours, source_sql, replica.db),
            Side(theirs, target_sql, replica.target_db),
            TABLES,
            find_committed(ours, replica.db),
        )


def find_committed(metastore: Metastore, db: str) -> dict[str, set[int]]:
    """Return the write ids of each table that the log says were committed."""
    allocated: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    committed: dict[str, set[int]] = {table: set() for table in TABLES}
    after = 0
    while page := metastore.next_events(after, 1000):
        for event in page:
            message = json.loads(event.message)
            if event.eventType == "ALLOC_WRITE_ID_EVENT" and message["dbName"] == db:
                for txn_id, write_id in zip(message["txnIdList"], message["writeIdList"], strict=True):
                    allocated[txn_id].append((message["tableName"], write_id))
            elif event.eventType == "COMMIT_TXN":
                for table, write_id in allocated.pop(message["txnid"], ()):
                    committed[table].add(write_id)
        after = page[-1].eventId
    return committed


@dataclass
class Watch:
    """Reads the tables of the target all the time, in a thread."""

    connect: Callable[[], Session]
    db: str
    reads: int = 0

    def __post_init__(self) -> None:
        self.seen: list[str] = []
        """Tables in which a row of an aborted transaction was visible."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the last read."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(StackError), self.connect() as sql:  # the metastore was killed
                while not self._stopping.wait(READ_EVERY_S):
                    for table in TABLES:
                        self._read(sql, table)

    def _read(self, sql: Session, table: str) -> None:
        if any(row[0] == NEVER for row in sql.rows(f"select * from {self.db}.{table}")):
            self.seen.append(table)
        self.reads += 1
