"""The retirement of a policy, which ends it permanently.

Its state file and a parameter of its target database record this, so neither a restarted daemon nor another
one follows the policy again.

A retirement removes everything else on both sides that still refers to the policy; the replica stays as it
is. ``repl.source.for`` makes the source keep deleted files for the policy and refuse DROP DATABASE. Replayed
transactions that are still open on the target would stay open for days and hold up its cleaner. Every step is
repeatable.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from handlers.replication.context import Context
from handlers.replication.effects.databases import unmark_source
from handlers.replication.operations.promotion import find_open_transactions
from handlers.replication.policy.policy import Policy
from handlers.replication.target.fencing import RETIRED, retired_policy
from handlers.structs.objects import Database
from state.errors import NotFound
from state.store import Reader, Store


RETIRED_KEY: Final = b"retired"


@dataclass(frozen=True, slots=True)
class Retirement:
    """Result of a retirement."""

    policy: str
    aborted: int
    """Replayed transactions aborted on the target."""
    unmarked: bool
    """Whether the source database named the policy in ``repl.source.for``."""


def is_retired(store: Reader) -> bool:
    """Whether the policy was retired, even if an error interrupted the retirement before its last step."""
    return store.get(RETIRED_KEY) is not None


def retire(context: Context, store: Store) -> Retirement:
    """Mark the policy's state and its target database as retired, abort its open transactions on the target,
    and remove its mark at the source.
    """
    policy = context.policy
    with store.transaction() as txn:
        txn.put(RETIRED_KEY, str(int(time.time())).encode())
    opened = find_open_transactions(context)
    for txn_id in sorted(opened):
        context.target.abort_replayed(policy.txn_map_key, txn_id)
    with suppress(NotFound):
        context.target_position.update(partial(_mark, name=policy.name))
    try:
        unmarked = unmark_source(context.source, policy)
    except NotFound:
        unmarked = False
    return Retirement(policy.name, len(opened), unmarked)


def _mark(database: Database, name: str) -> Database:
    database.parameters = {**(database.parameters or {}), RETIRED: name}
    return database


def require_not_retired(store: Reader, policy: Policy) -> None:
    """Raise ConfigError for a retired policy."""
    if is_retired(store):
        raise retired_policy(policy.name)
