"""Policies for all databases whose names match patterns, including those that are created later.

A pattern stands for one policy per database, so that each has a position, a failure domain and transactions of its own. The policy of a
database is named ``PATTERN.DATABASE``. Names in the configuration have no dot, so these cannot be confused with them, and the settings of
such a policy follow from its name alone: no command has to read the list of databases from the metastore.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field

from daemon.config.fields import DatabasePatterns, DatabaseTemplate, is_object_name
from daemon.config.section import Section
from daemon.config.settings.policies import PolicyConfig, PolicyRules
from handlers.replication.policy.policy import SYSTEM_DATABASES


class DatabasesConfig(Section):
    """Which databases of the source a pattern covers. Hive's own databases never are."""

    include: DatabasePatterns = Field(
        min_length=1, max_length=1000, description="Patterns of database names ('*', '?', '[...]')."
    )
    exclude: DatabasePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of databases that are not replicated; they take precedence over 'include'.",
    )


class PolicyPatternConfig(PolicyRules):
    """Policies for all databases of the source that match patterns; each is called NAME.DATABASE."""

    databases: DatabasesConfig = Field(description="Which databases are replicated.")
    target_database: DatabaseTemplate = Field(
        default="{database}",
        description="Name of each database on the target; {database} stands for its name at the source.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="auto",
        description="How the replica of a newly found database is bootstrapped: 'auto' by the daemon, 'manual' by running "
        "'tideline bootstrap NAME.DATABASE' once.",
    )
    discover_s: float = Field(
        default=10.0,
        ge=0.1,
        le=3600,
        description="How often the daemon asks the source for databases that it does not know yet.",
    )

    def covers(self, database: str) -> bool:
        """Whether a database of the source is replicated."""
        if database in SYSTEM_DATABASES or not is_object_name(database):
            return False
        if any(fnmatchcase(database, pattern) for pattern in self.databases.exclude):
            return False
        return any(fnmatchcase(database, pattern) for pattern in self.databases.include)

    def name_on_target(self, database: str) -> str:
        """Return the name that a database of the source has on the target."""
        return self.target_database.replace("{database}", database)

    def policy_of(self, database: str) -> PolicyConfig:
        """Return the policy of one database; raise pydantic's ValidationError if its name on the target would be too long."""
        rules: dict[str, Any] = {name: getattr(self, name) for name in PolicyRules.model_fields}
        return PolicyConfig(**rules, database=database, target_database=self.name_on_target(database))
