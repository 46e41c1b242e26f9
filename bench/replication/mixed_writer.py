"""A writer of small inserts, partitions and DDL. It makes Hive's calls for such statements, without the cost
of SQL.

Of twenty metadata calls, ten add a partition, five alter the table, two create a table, two drop a partition
and one drops a table; each logs one event. An insert logs three (transaction opened, write id allocated,
committed). Everything is transactional.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final, Self

from bench.events.writer import Writer
from dev.fixtures.hive_tables import ACID, a_partition, a_table
from handlers.metastore.client import Metastore
from handlers.structs.objects import Table


PARTITIONED: Final = "p"
EVENTS_PER_INSERT: Final = 3
METADATA_PER_INSERT: Final = 3
"""Metadata events per insert, so that half of the events of a mix are from inserts."""


class MixedWriter:
    """Writes into one database. Use it from one thread only."""

    def __init__(self, uri: str, db: str) -> None:
        self._inserts = Writer(uri, db)
        self._metastore = Metastore(uri)
        self._db = db
        self._calls = 0
        self._added = self._removed = self._created = self._dropped = 0

    def create(self) -> None:
        """Create the database and its tables."""
        self._inserts.create()
        self._metastore.create_table(a_table(self._db, PARTITIONED, partition_keys=["dt"], parameters=ACID))

    def write_mix(self, events: int) -> int:
        """Cause at least ``events`` events, half of them with inserts; return their number."""
        caused = 0
        while caused < events:
            self._inserts.insert()
            caused += EVENTS_PER_INSERT + self.write_metadata(METADATA_PER_INSERT)
        return caused

    def write_metadata(self, events: int) -> int:
        """Cause this number of metadata events."""
        for _ in range(events):
            self._change(self._calls % 20)
            self._calls += 1
        return events

    def _change(self, choice: int) -> None:
        if choice < 10:
            self._added += 1
            partition = a_partition(self._table(), f"{self._added:06d}")
            self._metastore.add_partitions(self._db, PARTITIONED, [partition])
        elif choice < 15:
            table = self._table()
            table.parameters = {**(table.parameters or {}), "note": str(self._calls)}
            self._metastore.alter_table(self._db, PARTITIONED, table)
        elif choice < 17:
            self._created += 1
            self._metastore.create_table(a_table(self._db, f"t{self._created}", parameters=ACID))
        elif choice < 19:
            self._removed += 1
            self._metastore.drop_partition(self._db, PARTITIONED, [f"{self._removed:06d}"])
        else:
            self._dropped += 1
            self._metastore.drop_table(self._db, f"t{self._dropped}")

    def _table(self) -> Table:
        return self._metastore.get_table(self._db, PARTITIONED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._metastore):
            self._inserts.close()
