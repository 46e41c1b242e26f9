"""Finds a policy by its name for a command, and opens it with its metastores and its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from daemon.config.model import Config
from daemon.state_directory.directory import open_state
from handlers.files.paths import Location, parse_location
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.structs.objects import Database
from state.errors import ConfigError
from state.store.sqlite import SqliteStore


STATE_KIND: Final = "replication"
"""Prefix of the names of state files."""


@dataclass(frozen=True, slots=True)
class OpenPolicy:
    """A policy that this process has opened, so no daemon follows it."""

    policy: Policy
    source: Metastore
    target: Metastore
    store: SqliteStore


def require_policy(config: Config, name: str) -> None:
    """Raise ConfigError if no policy has this name, or if another daemon follows it."""
    if config.find_policy(name) is None:
        patterns = (f"{pattern}.DATABASE" for pattern in config.policy_patterns)
        names = ", ".join((*config.policies, *patterns)) or "none"
        raise ConfigError("unknown policy", hint=f"Configured policies: {names}.", key="policies", value=name)
    owner = config.daemons.owner_of(name)
    if owner != config.daemons.ordinal:
        raise ConfigError(
            "another daemon follows the policy",
            hint=f"Run the command with the configuration and the state directory of daemon {owner}.",
            key="daemons.ordinal",
            value=config.daemons.ordinal,
            expected=owner,
        )


def handler_policy(config: Config, name: str) -> Policy:
    """Return the policy in the form that replay uses. Its views may read tables of other policies with the
    same target.
    """
    policy = config.policy(name)

    def find_others(database: str) -> Iterator[Policy]:
        for other, _ in config.find_policies(policy.source, policy.target, database):
            if other != name:
                yield handler_policy(config, other)

    return Policy(
        name=name,
        source_db=policy.database,
        target_db=policy.replica_database,
        include=tuple(policy.tables.include),
        exclude=tuple(policy.tables.exclude),
        external_base=policy.external_base,
        functions_dir=policy.functions_dir,
        metadata_only=tuple(policy.metadata_only),
        on_failure=policy.on_failure,
        others=find_others,
    )


def named_directories(policy: Policy) -> list[Location]:
    """Return the directories of the target that the configuration names. Their own paths may contain symbolic
    links.
    """
    return [parse_location(uri) for uri in (policy.external_base, policy.functions_dir) if uri is not None]


def database_directories(database: Database) -> list[Location]:
    """Return the directories of a database on the target. Their paths may contain symbolic links, too: its
    administrator has chosen them, and no event names them.
    """
    return [parse_location(uri) for uri in (database.locationUri, database.managedLocationUri) if uri]


@contextmanager
def open_policy(config: Config, name: str) -> Iterator[OpenPolicy]:
    """Open the metastores and the state of a policy. Raises ConfigError for an unknown one, StateLocked and
    StateCorrupt.
    """
    require_policy(config, name)
    settings = config.policy(name)
    with (
        closing(Metastore(config.sources[settings.source].metastore)) as source,
        closing(Metastore(config.targets[settings.target].metastore)) as target,
        closing(open_state(config.state.dir, STATE_KIND, name)) as store,
    ):
        yield OpenPolicy(handler_policy(config, name), source, target, store)
