"""All tables of a policy that the daemon knows, for lists of any length. The status does not contain them,
because it would become too long.

Other threads read the tables while replay changes them, so each read is a single step of a dictionary. The
sorted names of the policy that was read last are kept for some seconds, because sorting 100,000 names takes
longer than the rest of a page.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daemon.replica.verification.sampler import Ledger
from handlers.replication.tables.policy_tables import PolicyTables
from handlers.replication.tables.table_loads import TableLoad


NAMES_S: Final = 10.0
KEPT_MIN: Final = 5_000
"""Only the names of longer lists are kept; shorter ones are sorted each time."""


@dataclass(slots=True)
class LastNames:
    """The sorted table names of the policy that was read last. Thread-safe: each write replaces the whole
    value.
    """

    value: tuple[PolicyTables, float, Sequence[str]] | None = None

    def of(self, known: KnownTables) -> Sequence[str]:
        """Return the sorted table names of a policy, at most ``NAMES_S`` seconds old."""
        value, now_s = self.value, time.monotonic()
        if value is None or value[0] is not known.tables or now_s - value[1] > NAMES_S:
            value = (known.tables, now_s, known.sort_names())
            self.value = value if len(value[2]) >= KEPT_MIN else None
        return value[2]


@dataclass(frozen=True, slots=True)
class KnownTables:
    """The tables of one policy, by their names at the source without the database."""

    tables: PolicyTables
    ledger: Ledger | None
    """The outcomes of verification; None if the policy does not verify tables in turn."""
    last_names: LastNames

    def names(self) -> Sequence[str]:
        """Return the tables that were written, loaded or verified, sorted."""
        return self.last_names.of(self)

    def sort_names(self) -> Sequence[str]:
        """Return the current names, sorted."""
        start = len(self.tables.db) + 1
        written = (table[start:] for table in self.tables.write_ids.tables())
        loaded = (load.table for load in self.tables.loads.entries())
        return sorted({*written, *loaded, *(() if self.ledger is None else self.ledger.verified_s)})

    def __contains__(self, table: str) -> bool:
        """Whether this table was written, loaded or verified."""
        is_loaded = table in self.tables.loads
        return is_loaded or self.write_id(table) is not None or self.verified_s(table) is not None

    def write_id(self, table: str) -> int | None:
        """Return the highest known write id, or None."""
        load = self.tables.loads.get(table)
        loaded = 0 if load is None else load.write_id
        return max(loaded, self.tables.write_ids.high_water_mark(f"{self.tables.db}.{table}")) or None

    def loaded(self, table: str) -> TableLoad | None:
        """Return the last load of the table if it has ended."""
        load = self.tables.loads.get(table)
        return load if load is not None and load.is_loaded else None

    def open_writes(self, table: str) -> tuple[int, ...]:
        """Return the uncommitted write ids."""
        held = self.tables.write_ids.held_write_ids(f"{self.tables.db}.{table}")
        return tuple(sorted(write_id for write_id, _ in held))

    def verified_s(self, table: str) -> float | None:
        """Return when verification last compared the table, or first saw it (Unix time)."""
        return None if self.ledger is None else self.ledger.verified_s.get(table)

    def excluded(self) -> dict[str, str]:
        """Return the tables without replication, and those that left the policy, with their states."""
        unreplicated = {entry.table: "not replicated" for entry in self.tables.unreplicated.entries()}
        return unreplicated | {entry.table: "left" for entry in self.tables.left.entries()}
