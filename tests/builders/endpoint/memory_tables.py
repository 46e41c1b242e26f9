"""The endpoint's access to an index in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from daemon.endpoint.answers.table_access import Forward, Reason, TableView
from handlers.catalog.index.payload_bytes import PayloadBytes
from handlers.catalog.index.table_records import read_record


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.catalog.index.partition_follower import PartitionFollower


class MemoryTables:
    """Opens the tables of a follower; ``forward`` makes it refuse, as for a table that is not fresh."""

    def __init__(self, follower: PartitionFollower) -> None:
        self._follower = follower
        self.forward: Reason | None = None

    @contextmanager
    def open_table(self, db: str, table: str) -> Iterator[TableView | Forward]:
        """Open a table as it is now."""
        name = f"{db}.{table}".lower()
        with self._follower.snapshot() as snapshot:
            if self.forward is not None:
                yield Forward(self.forward)
            elif (record := read_record(snapshot.catalog or snapshot.reader, name)) is None:
                yield Forward(Reason.UNKNOWN_TABLE)
            else:
                payloads = PayloadBytes(snapshot.reader)
                event_id = snapshot.event_id() or 0
                yield TableView(name, record, snapshot.index, payloads, snapshot.budget, event_id)
