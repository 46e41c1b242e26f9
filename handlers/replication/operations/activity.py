"""Whether a policy is active: an operator may pause it for a while, or retire it permanently.

The policy's state file has both: a restart of the daemon neither resumes nor follows the policy again.

A retirement removes everything on both sides that still refers to the policy. The replica stays as it is.
``repl.source.for`` makes the source keep deleted files for the policy and refuse DROP DATABASE. Replayed
transactions that are still open on the target would stay open for days and hold up its cleaner. Every step is
repeatable.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from handlers.metastore.client import Metastore
from handlers.replication.effects.databases import unmark_source
from handlers.replication.policy.policy import Policy
from state.errors import ConfigError, NotFound
from state.store import Reader, Store
from state.transactions.write_id_mapping import WriteIdMapping


PAUSED_KEY: Final = b"paused-since"


class Pause:
    """The pause of one policy, in its state file. Used by replay's thread."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def since_s(self) -> int | None:
        """Return the Unix time of the pause; None if there is none."""
        stored = self._store.get(PAUSED_KEY)
        return None if stored is None else int(stored)

    def begin(self) -> int:
        """Pause the policy; return since when it pauses."""
        since_s = self.since_s()
        if since_s is None:
            since_s = int(self._clock())
            with self._store.transaction() as txn:
                txn.put(PAUSED_KEY, str(since_s).encode())
        return since_s

    def end(self) -> None:
        """Resume the policy."""
        with self._store.transaction() as txn:
            txn.delete(PAUSED_KEY)


RETIRED_KEY: Final = b"retired"


@dataclass(frozen=True, slots=True)
class Retirement:
    """Result of a retirement."""

    policy: str
    aborted: int
    """Replayed transactions aborted on the target."""
    unmarked: bool
    """Whether the source database named the policy in ``repl.source.for``."""


def retire(*, source: Metastore, target: Metastore, policy: Policy, store: Store) -> Retirement:
    """Mark the policy's state as retired,
    abort its open transactions on the target, and remove its mark at the source.
    """
    with store.transaction() as txn:
        txn.put(RETIRED_KEY, str(int(time.time())).encode())
    write_ids = WriteIdMapping()
    write_ids.load(store)
    opened = set(write_ids.open_txns())
    if target.supports("get_replayed_txns_for_policy"):
        opened |= target.replayed_txns(policy.txn_map_key).keys()
    for txn_id in sorted(opened):
        target.abort_replayed(policy.txn_map_key, txn_id)
    try:
        unmarked = unmark_source(source, policy)
    except NotFound:
        unmarked = False
    return Retirement(policy.name, len(opened), unmarked)


def require_active(store: Reader, policy: Policy) -> None:
    """Raise ConfigError for a retired policy."""
    if store.get(RETIRED_KEY) is not None:
        raise ConfigError(
            "the policy was retired",
            key=f"policies.{policy.name}",
            hint="Remove it from the configuration, or exclude its database from the pattern. To replicate "
            "again, move its state file away and bootstrap it into a new target database.",
        )
