"""Tables of a policy's database that cannot be replicated, with the reason, which the status shows (``effects.unreplicated``)."""

from __future__ import annotations

from dataclasses import dataclass

from handlers.replication.policy.replicability import MATERIALIZED_VIEW
from handlers.replication.tables.table_entries import TableEntries


@dataclass(frozen=True, slots=True)
class UnreplicatedTable:
    """A table of the source database that is not replicated. The field names are those of the stored JSON."""

    table: str
    event_id: int
    """The event that showed its kind."""
    code: str = MATERIALIZED_VIEW.code
    """What the table is; entries of older versions are materialized views."""
    reason: str = MATERIALIZED_VIEW.reason
    on_target: bool = False
    """Whether the target has rows of a time when the table was replicated."""


class UnreplicatedTables(TableEntries[UnreplicatedTable]):
    """The tables of one policy that cannot be replicated, by name."""

    prefix = b"materialized-view/"
    kind = UnreplicatedTable
