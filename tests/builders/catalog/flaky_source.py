"""A source in memory whose calls fail as a drawn sequence says: internal errors, calls without an answer,
closed connections."""

from __future__ import annotations

from typing import Any

from dev.fixtures.memory_source import MemorySource
from state.errors import AmbiguousCall, MetastoreUnavailable, ServerFault, TidelineError


FAULTS: tuple[TidelineError, ...] = (
    ServerFault("internal error"),
    AmbiguousCall("not answered in time"),
    MetastoreUnavailable("the connection was closed"),
)
CALLS = frozenset(
    {"database_names", "table_names", "get_tables", "get_table", "partition_names", "get_partitions"}
    | {"all_partitions", "current_event_id", "alter_table"}
)


class FlakySource:
    """Passes calls to a source, or fails: one entry of ``faults`` for each call, None for success; then every
    call succeeds."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self.faults: list[TidelineError | None] = []

    def __getattr__(self, name: str) -> Any:
        if name in CALLS and self.faults:
            fault = self.faults.pop()
            if fault is not None:
                raise fault
        return getattr(self._source, name)
