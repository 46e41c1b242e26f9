"""A writer over many databases, for ``bench.events.writer.Load``, whose transactions also span two of them or
are aborted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Final

from bench.events.writer import TABLE, Commit
from bench.policies import SpreadWriter


ABORTED_SHARE: Final = 0.2
SPANNING_SHARE: Final = 0.3


class SpanningWriter(SpreadWriter):
    """Writes to one database after the other; ``aborted`` collects the databases and write ids of those
    transactions that it aborts between the others."""

    def __init__(self, uri: str, dbs: Iterator[str], random: Random, aborted: set[tuple[str, int]]) -> None:
        super().__init__(uri, dbs)
        self._random = random
        self._aborted = aborted

    def insert(self) -> Commit:
        """Insert into the next database, or into the next two; the commit names the first."""
        while self._random.random() < ABORTED_SHARE:
            txn, written = self._write()
            for db, _ in written:
                self._metastore.lock_for_insert(txn, db, TABLE)
            self._metastore.abort_txn(txn)
            self._aborted.update(written)
        txn, written = self._write()
        asked_s = time.monotonic()
        self._metastore.commit_txn(txn)
        return Commit(*written[0], asked_s, time.monotonic())

    def _write(self) -> tuple[int, list[tuple[str, int]]]:
        """Write in one transaction; return it, and its databases with their write ids."""
        (txn,) = self._metastore.open_txns()
        parts = 2 if self._random.random() < SPANNING_SHARE else 1
        writers = dict(self._next() for _ in range(parts))
        return txn, [(db, writer.write(txn)) for db, writer in writers.items()]
