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
        description="Patterns of tables that are left out; they win over 'include'.",
    )


class PolicyConfig(Section):
    """What is replicated where, under which name."""

    source: Name = Field(description="Name of the source.")
    target: Name = Field(description="Name of the target.")
    database: ObjectName = Field(description="Database of the source.")
    target_database: ObjectName | None = Field(
        default=None, description="Its name on the target; the same where not given."
    )
    tables: TablesConfig = Field(default=TablesConfig(), description="Which of its tables.")
    external_base: Location | None = Field(
        default=None,
        description="URI below which external tables are put on the target (base and path at the source); not given: the "
        "target's own default.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="manual",
        description="Who makes the replica when it is new: 'manual' wants 'tideline bootstrap POLICY' once; with 'auto' the "
        "daemon does it when it first opens the policy (where a command beside the daemon is in the way: containers).",
    )
    on_failure: Literal["quarantine", "fail", "skip"] = Field(
        default="quarantine",
        description="What a permanent failure of one table does: 'quarantine' stops following that table, 'fail' stops the "
        "policy, 'skip' leaves out the event and goes on (the replica then differs).",
    )

    @property
    def replica_database(self) -> str:
        """The database's name on the target."""
        return self.target_database or self.database
