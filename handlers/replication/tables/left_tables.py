"""Tables that left a policy by changed patterns, and stay on the target until an operator drops them.

Replay no longer changes such a table, so it becomes outdated unnoticed. The entries keep it in the status until it is
dropped or enters the policy again. They are part of the policy's state, and also kept on the target (``kept_entries``), because
nothing else distinguishes these tables from others. Only recorded tables are ever dropped here, and only on request.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.replication.tables.table_entries import TableEntries


if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class LeftTable:
    """A table that left the policy. The field names are those of the stored JSON."""

    table: str
    left_s: int = 0
    """Unix time; 0 if the state file was lost since."""


class LeftTables(TableEntries[LeftTable]):
    """The tables that left one policy, by the name at the source."""

    prefix = b"left/"
    kind = LeftTable

    def add(self, table: str) -> None:
        """Record that ``table`` left now."""
        if table not in self:
            self.put(LeftTable(table, int(time.time())))

    def keep_only(self, present: Iterable[str]) -> None:
        """Forget the tables that the target does not have any more."""
        kept = set(present)
        for entry in self.entries():
            if entry.table not in kept:
                self.remove(entry.table)
