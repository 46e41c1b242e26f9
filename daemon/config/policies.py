"""Settings of policies: what is replicated where, under which name.

Shared, because the catalog publishes timelines to a target under the names that policies give databases there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from daemon.config.fields import Location, Name, ObjectName, TablePatterns
from daemon.config.section import Section


class TablesConfig(Section):
    """Which tables of a database a policy covers."""

    include: TablePatterns = Field(
        default=["*"],
        min_length=1,
        max_length=1000,
        description="Patterns of table names ('*', '?', '[...]').",
    )
    exclude: TablePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of tables that are not replicated; they take precedence over 'include'.",
    )


class PolicyConfig(Section):
    """What is replicated where, under which name."""

    source: Name = Field(description="Name of the source.")
    target: Name = Field(description="Name of the target.")
    database: ObjectName = Field(description="Database of the source.")
    target_database: ObjectName | None = Field(
        default=None, description="Name of the database on the target; the same name if not given."
    )
    tables: TablesConfig = Field(default=TablesConfig(), description="Which of its tables are replicated.")
    external_base: Location | None = Field(
        default=None,
        description="URI below which external tables are placed on the target (base, then the path at the source). Not given: "
        "the target's own default.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="manual",
        description="How a new replica is bootstrapped: 'manual' by running 'tideline bootstrap POLICY' once, 'auto' by the daemon "
        "when it first opens the policy (for containers, where running a command is inconvenient).",
    )
    on_failure: Literal["quarantine", "fail", "skip"] = Field(
        default="quarantine",
        description="What follows from a permanent failure of one table: 'quarantine' stops replicating the table, 'fail' stops "
        "the policy, 'skip' ignores the event and continues (the replica then differs).",
    )

    @property
    def replica_database(self) -> str:
        """Return the name of the database on the target."""
        return self.target_database or self.database
