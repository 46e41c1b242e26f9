"""Tables with truncated partitions whose mark of accurate statistics could not be compared with the source (``effects.accuracy_marks``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from handlers.replication.tables.table_entries import TableEntries


if TYPE_CHECKING:
    from collections.abc import Sequence


NAMES_MAX: Final = 1_000
"""Partitions of a table that are recorded by name."""


@dataclass(frozen=True, slots=True)
class UncheckedMarks:
    """One table. The field names are those of the stored JSON."""

    table: str
    partitions: Sequence[str] = field(default=())
    """Names of the partitions; all of the table if empty."""


class UncheckedTables(TableEntries[UncheckedMarks]):
    """The tables of one policy, by the name at the source."""

    prefix = b"unchecked/"
    kind = UncheckedMarks

    def add(self, table: str, partitions: Sequence[str]) -> None:
        """Add partitions of a table; more than ``NAMES_MAX`` become all partitions."""
        present = self.get(table)
        if present is not None and not present.partitions:
            return
        names = sorted({*(present.partitions if present else ()), *partitions})
        self.put(UncheckedMarks(table, names if len(names) <= NAMES_MAX else ()))
