"""A policy: a source database, its replicated tables, and their target.

Table patterns are shell patterns (``*``, ``?``, ``[…]``) on lower-case table names; exclusion takes
precedence. The target's transaction map is keyed by the text ``<target database>.*`` (Hive's REPL_TXN_MAP). A
call with another text succeeds and has no effect (reference: hive-replication.md §0b.7), so only this module
derives the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal


ALL_TABLES: Final = ("*",)
SYSTEM_DATABASES: Final = frozenset({"sys", "information_schema"})
"""Hive's own databases: views on the metastore itself, which each cluster has. No policy replicates them."""


def _no_others(_database: str) -> Iterable[Policy]:
    return ()


@dataclass(frozen=True, slots=True)
class Policy:
    """One replication policy; names are lower case."""

    name: str
    source_db: str
    target_db: str
    include: tuple[str, ...] = ALL_TABLES
    exclude: tuple[str, ...] = ()
    on_failure: Literal["quarantine", "fail", "skip"] = "quarantine"
    """The consequence of a permanent failure of one table: 'quarantine' stops replicating the table, 'fail'
    stops the policy, 'skip' ignores the event and continues (the replica then differs)."""
    external_base: str | None = None
    """URI for external tables (base + path at the source); None: the target's default location."""
    metadata_only: tuple[str, ...] = ()
    """Patterns of tables without their rows (``metadata_only``)."""

    functions_dir: str | None = None
    """URI for the files of functions; None: functions with files are not replicated."""
    others: Callable[[str], Iterable[Policy]] = field(default=_no_others, compare=False, repr=False)
    """Returns the policies that replicate a database of the same source to the same target; views may read
    its tables."""

    @property
    def txn_map_key(self) -> str:
        """The policy text that the target's metastore maps transactions by."""
        return f"{self.target_db}.*"

    @property
    def keeps_name(self) -> bool:
        """Whether the database has the same name on the target."""
        return self.source_db == self.target_db

    def find_target(self, db: str, table: str | None) -> str | None:
        """Return the name that a database of the source has on the target.

        None if no policy replicates the database there or, if a table is given, this table of it.
        """
        if db in SYSTEM_DATABASES:
            return db
        owner = self.find_owner(db, table)
        return None if owner is None else owner.target_db

    def find_owner(self, db: str, table: str | None) -> Policy | None:
        """Return the policy that replicates a database of the source, or a table of it if one is given, to
        the same target.
        """
        for policy in (self, *self.others(db)):
            if policy.covers(db, table) if table is not None else policy.covers_db(db):
                return policy
        return None

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
