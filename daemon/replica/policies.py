"""A policy by its name, as commands get it: checked, and opened with its metastores and its state."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.process.state_file import open_state
from daemon.replica.loop import STATE_KIND, handler_policy
from handlers.metastore.client import Metastore
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.model import Config
    from handlers.replication.policy import Policy
    from state.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class OpenPolicy:
    """A policy that no daemon follows now."""

    policy: Policy
    source: Metastore
    target: Metastore
    store: SqliteStore


def require_policy(config: Config, name: str) -> None:
    """Raise ConfigError if no policy has this name."""
    if config.find_policy(name) is None:
        patterns = (f"{pattern}.DATABASE" for pattern in config.policy_patterns)
        known = ", ".join((*config.policies, *patterns)) or "none"
        raise ConfigError("unknown policy", hint=f"Configured policies: {known}.", key="policies", value=name)


@contextmanager
def open_policy(config: Config, name: str) -> Iterator[OpenPolicy]:
    """Open the metastores and the state of a policy; raise ConfigError for an unknown one, StateLocked and StateCorrupt."""
    require_policy(config, name)
    settings = config.policy(name)
    with (
        closing(Metastore(config.sources[settings.source].metastore)) as source,
        closing(Metastore(config.targets[settings.target].metastore)) as target,
        closing(open_state(config.state.dir, STATE_KIND, name)) as store,
    ):
        yield OpenPolicy(handler_policy(config, name), source, target, store)
