"""Tables that enter or leave a policy by a change of its patterns in the configuration.

The state has the patterns of the last start. Tables of the source that only the new ones cover get a load
while the policy follows. Tables that only the old ones cover stay on the target as they are, and replay
forgets them; an operator may drop them (``LeftTables``). Tables that both cover get another load if only one
of them replicates their rows (``metadata_only``).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import orjson
import structlog

from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.policy.policy import Policy
from state.errors import NotFound, StateCorrupt
from state.store import Reader, Store


log = structlog.get_logger(__name__)

PATTERNS_KEY: Final = b"patterns"


@dataclass(frozen=True, slots=True)
class ScopeChange:
    """The tables that entered and left a policy."""

    entered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def find_scope_change(context: Context, reader: Reader) -> ScopeChange:
    """Compare the policy's patterns with the stored ones, for the tables that exist now. Raises
    StateCorrupt.
    """
    policy, before = context.policy, _read_policy(context.policy, reader)
    if before is None or _patterns(before) == _patterns(policy):
        return ScopeChange()
    names = _names(context.source, policy.source_db)
    return ScopeChange(
        entered=tuple(sorted((*_only_in(policy, before, names), *_changed_rows(policy, before, names)))),
        left=_only_in(before, policy, _names(context.target, policy.target_db)),
    )


def follow_scope(context: Context, store: Store, loads: LoadFollower) -> None:
    """Load the tables that entered the policy since the last start,
    and forget those that left it. Raises StateCorrupt.
    """
    changed = find_scope_change(context, store)
    if len(context.tables.left):
        context.tables.left.keep_only(context.target.table_names(context.policy.target_db))
    for table in changed.left:
        loads.forget(table)
        context.tables.left.add(table)
    for table in changed.entered:
        context.tables.left.remove(table)
    if changed.entered or changed.left:
        log.warning(
            "the patterns of the policy changed",
            policy=context.policy.name,
            loaded=changed.entered,
            left=changed.left,
        )
        loads.request(changed.entered, "in-scope")
    store_patterns(context.policy, store)


def store_patterns(policy: Policy, store: Store) -> None:
    """Store the policy's patterns, after recording their changes."""
    value = orjson.dumps(_patterns(policy))
    if store.get(PATTERNS_KEY) != value:
        with store.transaction() as txn:
            txn.put(PATTERNS_KEY, value)


def _read_policy(policy: Policy, reader: Reader) -> Policy | None:
    """Return the policy with its stored patterns; None if there are none."""
    text = reader.get(PATTERNS_KEY)
    if text is None:
        return None
    try:
        patterns = orjson.loads(text)
        return replace(
            policy,
            include=tuple(patterns["include"]),
            exclude=tuple(patterns["exclude"]),
            metadata_only=tuple(patterns.get("metadata_only", ())),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise StateCorrupt(
            "the stored patterns cannot be read", key=PATTERNS_KEY, reason=str(error)
        ) from error


def _patterns(policy: Policy) -> dict[str, tuple[str, ...]]:
    patterns = {"include": policy.include, "exclude": policy.exclude}
    return patterns | ({"metadata_only": policy.metadata_only} if policy.metadata_only else {})


def _names(metastore: Metastore, db: str) -> list[str]:
    with suppress(NotFound):
        return metastore.table_names(db)
    return []


def _only_in(policy: Policy, other: Policy, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that ``policy`` covers and ``other`` does not."""
    db = policy.source_db
    return tuple(sorted(name for name in names if policy.covers(db, name) and not other.covers(db, name)))


def _changed_rows(policy: Policy, other: Policy, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that both policies cover, but only one of them with rows."""
    db = policy.source_db
    return tuple(
        name
        for name in names
        if policy.covers(db, name)
        and other.covers(db, name)
        and policy.copies_rows(name) != other.copies_rows(name)
    )
