"""Tables whose files were last copied when the source was ahead of the event that names them (``effects.files.renamed_files``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from handlers.replication.tables.table_entries import TableEntries


UNKNOWN: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CopiedAhead:
    """One table. The field names are those of the stored JSON."""

    table: str
    event_id: int
    """The source's newest event after the copy; ``UNKNOWN`` if it could not be reached."""


class CopiedAheadTables(TableEntries[CopiedAhead]):
    """The tables of one policy, by the name at the source."""

    prefix = b"ahead/"
    kind = CopiedAhead

    def __init__(self) -> None:
        super().__init__()
        self.uncertain_event_id = -1
        """An earlier process may have copied files for events up to this one, and its entries are lost."""

    def record(self, table: str, newest: int, applied: int) -> None:
        """Record a copy for event ``applied``, made before the source logged any event after ``newest``."""
        present = self.get(table)
        known = max(newest, present.event_id if present else 0)
        if known > applied:
            self.put(CopiedAhead(table, known))
        else:
            self.remove(table)

    def covers(self, table: str, event_id: int) -> bool:
        """Whether ``event_id`` may have happened at the source before the table's last copy."""
        entry = self.get(table)
        return event_id <= max(self.uncertain_event_id, entry.event_id if entry else -1)
