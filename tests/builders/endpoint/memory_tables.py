"""The endpoint's access to an index in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from daemon.endpoint.answers.table_access import Forward, Reason, TableView
from handlers.catalog.index.partition_follower import PartitionFollower


T = TypeVar("T")


class MemoryTables:
    """Reads the tables of a follower; ``forward`` makes it refuse, as for a table that is not fresh."""

    def __init__(self, follower: PartitionFollower) -> None:
        self._follower = follower
        self.forward: Reason | None = None

    def arrive(self, *, is_likely: bool = False) -> MemoryTables:  # noqa: ARG002 - nothing to prepare
        """Begin a request."""
        return self

    def read(self, db: str, table: str, make: Callable[[TableView], T]) -> tuple[T, TableView] | Forward:
        """Read a table as it is now."""
        name = f"{db}.{table}".lower()
        with self._follower.snapshot() as snapshot:
            if self.forward is not None:
                return Forward(self.forward)
            record = snapshot.record(name)
            if record is None:
                return Forward(Reason.UNKNOWN_TABLE)
            view = TableView(name, snapshot, record, snapshot.event_id() or 0)
            return make(view), view
