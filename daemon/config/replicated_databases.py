"""The databases of a source that policies replicate.

The relay looks them up for each transaction, so hundreds of policies must not cost more than one.
"""

from __future__ import annotations

from daemon.config.model import Config


class ReplicatedDatabases:
    """The names of the replicated databases, including future databases that a pattern covers."""

    def __init__(self, config: Config, source: str) -> None:
        self._databases = {each.database for each in config.policies.values() if each.source == source}
        self._patterns = [each for each in config.policy_patterns.values() if each.source == source]

    def __contains__(self, database: object) -> bool:
        return database in self._databases or (
            isinstance(database, str) and any(pattern.covers(database) for pattern in self._patterns)
        )
