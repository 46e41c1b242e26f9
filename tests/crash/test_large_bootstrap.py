"""The bootstrap of a thousand tables with aborted, open and compacted transactions, while writers continue.

Rows, write ids, definitions and statistics of all tables are compared. ``test_large_outages`` does the same
while components are killed.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from dev.demo.compare import Side, compare_databases
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap_run import BootstrapOptions, SilentBootstrap
from handlers.replication.loading.table.tools import LoadSettings
from tests.builders.replication import replica as replicas
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.loads import load_waiting_tables
from tests.builders.replication.many_tables import ManyTables, write_many
from tests.integration.conftest import source, stack, target


__all__ = ["source", "stack", "target"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

TABLES = 1_000
CALLS: Counter[str] = Counter()


class CountingMetastore(Metastore):
    """Counts the calls of all clients."""

    def _invoke(self, call: Any, *arguments: Any) -> Any:
        CALLS[call.name] += 1
        return super()._invoke(call, *arguments)


class Committing(SilentBootstrap):
    """Commits those of the held transactions that the bootstrap waits for; the SQL engine's end by
    themselves."""

    def __init__(self, source: str, held: Sequence[int]) -> None:
        self._held = frozenset(held)
        self._metastore = WritingMetastore([source])
        self._lock = threading.Lock()
        self.waited_for: list[int] = []

    def close(self) -> None:
        self._metastore.close()

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:  # noqa: ARG002 - part of the port
        with self._lock:
            for txn_id in self._held.intersection(txn_ids):
                self._metastore.commit_txn(txn_id)
                self.waited_for.append(txn_id)


def write_until(stop: threading.Event, made: ManyTables, address: str) -> None:
    """Insert into table after table until the bootstrap has ended."""
    with Session.connect(address) as sql:
        for number in range(10_000):
            if stop.is_set():
                return
            sql.run(f"insert into {made.db}.{made.names[number * 37 % len(made.names)]} values ({number})")


def test_a_thousand_tables_are_bootstrapped_while_writers_continue(
    source: ClusterEndpoints,  # noqa: F811 - a fixture asks for fixtures by their names
    target: ClusterEndpoints,  # noqa: F811 - likewise
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    db = f"many_{uuid.uuid4().hex[:8]}"
    with Session.connect(source.sql) as sql, closing(WritingMetastore([source.metastore])) as writer:
        made = write_many(sql, writer, db, TABLES)
    monkeypatch.setattr(replicas, "Metastore", CountingMetastore)
    progress = Committing(source.metastore, made.held)
    replica = replicas.build_replica(
        source.metastore,
        target.metastore,
        db=db,
        roots=[source.warehouse, source.external, source.cmroot],
        bootstrap=BootstrapOptions(LoadSettings(poll_s=0.05), progress=progress),
    )
    stop = threading.Event()
    writing = threading.Thread(target=write_until, args=(stop, made, source.sql))
    with closing(replica.projection), closing(progress):
        CALLS.clear()
        writing.start()
        started = time.monotonic()
        replica.projection.open()
        seconds, calls = time.monotonic() - started, CALLS.total()
        stop.set()
        writing.join()
        replica.follow()
        load_waiting_tables(replica)
        log.info("%d tables: %.1f s, %d metastore calls", TABLES, seconds, calls)
        log.info("calls: %s", CALLS.most_common(12))
        assert sorted(progress.waited_for) == sorted(made.held)
        assert replica.quarantined() == {}
        with Session.connect(source.sql) as ours, Session.connect(target.sql) as theirs:
            engines = (source.sql, db), (target.sql, replica.policy.target_db)
            assert find_unequal_rows(*engines, made.names) == []
            sides = (Side(replica.source, ours, db), Side(replica.target, theirs, replica.policy.target_db))
            assert compare_databases(*sides, {}).list_differences() == []
