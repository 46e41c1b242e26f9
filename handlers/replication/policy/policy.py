"""A policy: which source database is replicated, which of its tables, and to where.

Table patterns are shell patterns (``*``, ``?``, ``[…]``) on lower-case table names; exclusion takes precedence. The target's
transaction map is keyed by the text ``<target database>.*`` (Hive's REPL_TXN_MAP). A wrong text succeeds silently (reference:
hive-replication.md §0b.7), so it is derived here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True, slots=True)
class Policy:
    """One replication policy; names are lower case."""

    name: str
    source_db: str
    target_db: str
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    on_failure: Literal["quarantine", "fail", "skip"] = "quarantine"
    """What a permanent failure of one table does: quarantine the table, stop the policy, or skip the event."""
    external_base: str | None = None
    """URI below which external tables are placed (base + path at the source); None: the target's default location."""
    metadata_only: tuple[str, ...] = ()
    """Patterns of tables without their rows (``metadata_only``)."""

    functions_dir: str | None = None
    """URI below which the files of functions are copied; None: functions with files are not replicated."""

    @property
    def txn_map_key(self) -> str:
        """The policy text that the target's metastore maps transactions by."""
        return f"{self.target_db}.*"

    def covers_db(self, db: str | None) -> bool:
        """Whether events of this database concern the policy."""
        return db == self.source_db

    def copies_rows(self, table: str) -> bool:
        """Whether the rows of a replicated table are replicated, too."""
        return not any(fnmatchcase(table, pattern) for pattern in self.metadata_only)

    def covers(self, db: str | None, table: str | None) -> bool:
        """Whether this table is replicated."""
        if db != self.source_db or table is None:
            return False
        if any(fnmatchcase(table, pattern) for pattern in self.exclude):
            return False
        return any(fnmatchcase(table, pattern) for pattern in self.include)
