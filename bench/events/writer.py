"""A writer that makes the metastore calls of small Hive inserts, without the cost of SQL.

The calls are open_txns, allocate_table_write_ids, one file in the delta directory of its write id,
add_write_notification_log with the MD5 of the file (the metastore adds the root of the change manager), and
commit_txn. The content of the file is never read.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.objects import Database


FILE_BYTES: Final = 2_000
TABLE: Final = "t"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; times are those of the monotonic clock before and after commit_txn."""

    db: str
    write_id: int
    asked_s: float
    answered_s: float


class Writer:
    """Inserts into one transactional table. Use it from one thread only, in which several writers may share a
    connection.
    """

    def __init__(self, metastore: str | WritingMetastore, db: str) -> None:
        self._metastore = (
            metastore if isinstance(metastore, WritingMetastore) else WritingMetastore(metastore)
        )
        self._db = db
        self._location = ""

    def create(self) -> None:
        """Create database and table."""
        self._metastore.create_database(Database(name=self._db, parameters={"repl.source.for": "bench"}))
        self._metastore.create_table(a_table(self._db, TABLE, parameters=ACID))

    def insert(self) -> Commit:
        """Insert one file in one transaction."""
        (txn,) = self._metastore.open_txns()
        write_id = self.write(txn)
        asked_s = time.monotonic()
        self._metastore.commit_txn(txn)
        return Commit(self._db, write_id, asked_s, time.monotonic())

    def write(self, txn: int) -> int:
        """Write one file in an open transaction; return the write id."""
        write_id = self._metastore.allocate_write_ids(self._db, TABLE, [txn])[txn]
        self._log_files(txn, write_id, self._write_file(write_id))
        return write_id

    def _log_files(self, txn: int, write_id: int, written: InsertEventRequestData) -> None:
        """Report the file to the metastore."""
        self._metastore.add_write_notification(txn, write_id, self._db, TABLE, written)

    def _write_file(self, write_id: int) -> InsertEventRequestData:
        """Write the file and return its description for the metastore."""
        self._location = self._location or str(self._metastore.get_table(self._db, TABLE).sd.location)
        delta = f"delta_{write_id:07}_{write_id:07}_0000"
        content = os.urandom(FILE_BYTES)
        directory = Path(self._location.removeprefix("file:"), delta)
        directory.mkdir(parents=True)
        (directory / "bucket_00000_0").write_bytes(content)
        return InsertEventRequestData(
            filesAdded=[f"{self._location}/{delta}/bucket_00000_0"],
            filesAddedChecksum=[hashlib.md5(content, usedforsecurity=False).hexdigest()],
            subDirectoryList=[delta],
        )

    def close(self) -> None:
        """Release the connection."""
        self._metastore.close()


class Inserts(Protocol):
    """The protocol of a writer, which one thread uses."""

    def insert(self) -> Commit:
        """Insert something in one transaction."""

    def close(self) -> None:
        """Release the connection."""


class Load:
    """Inserts at a fixed rate with several writers. A late insert does not delay the following ones."""

    def __init__(self, build: Callable[[], Inserts], *, per_s: float, seconds: float, writers: int) -> None:
        self.commits: list[Commit] = []
        self._build = build
        self._per_s = per_s
        self._left = iter(range(round(per_s * seconds)))
        self._lock = threading.Lock()
        self._began_s = 0.0
        self._threads = [threading.Thread(target=self._run, name=f"writer-{n}") for n in range(writers)]

    def start(self) -> None:
        """Start the writers."""
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the last insert."""
        for thread in self._threads:
            thread.join()

    @property
    def running(self) -> bool:
        """Whether inserts are still scheduled or running."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def actual_per_s(self) -> float:
        """The actual number of commits per second."""
        return len(self.commits) / (max(commit.answered_s for commit in self.commits) - self._began_s)

    def _run(self) -> None:
        with closing(self._build()) as writer:
            while (number := self._next()) is not None:
                time.sleep(max(0.0, self._began_s + number / self._per_s - time.monotonic()))
                self.commits.append(writer.insert())

    def _next(self) -> int | None:
        with self._lock:
            return next(self._left, None)
