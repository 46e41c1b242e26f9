"""Bootstrap of a policy: determines the event after which following starts.

This version bootstraps source databases that are empty or do not exist yet, so that everything they will contain comes from
events. The steps and their order:

1. Read the source's current event id. Only then is the database examined: in the other order, changes in between would be
   lost (HIVE-19927). A table created in between would be both found and announced by an event, so step 2 refuses it.
2. Require that the source database has no tables in scope. (Loading existing tables will take the place of this step.)
3. Mark the source database, and create the target database or take over an empty one.
4. Record the position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.replication.effects.databases import TARGET_FOR, mark_source, to_target_database
from handlers.replication.target_position import LAST_ID
from state.errors import AlreadyExists, NotFound, TargetDiverged, Unsupported
from state.positions import POSITION_KEY, Position


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy
    from handlers.structs.objects import Database
    from state.store import Store


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """The outcome of a bootstrap."""

    policy: str
    event_id: int
    """Following starts after this event."""
    source_exists: bool
    repeated: bool
    """True if the policy was already bootstrapped and nothing was changed."""


def bootstrap(*, source: Metastore, target: Metastore, policy: Policy, store: Store) -> BootstrapResult:
    """Prepare source and target databases and record the position; a repetition changes nothing.

    Raises Unsupported if the source database has tables in scope, TargetDiverged if the target database has tables that
    replication did not create.
    """
    recorded = store.get(POSITION_KEY)
    if recorded is not None:
        return BootstrapResult(
            policy.name, Position.from_bytes(recorded).event_id, source_exists=True, repeated=True
        )
    event_id = source.current_event_id()  # step 1
    database = _find_source_database(source, policy)
    _require_empty(source, policy, exists=database is not None)  # step 2
    if database is not None:  # step 3
        mark_source(source, policy)
        _prepare_target(target, policy, database, event_id)
    else:
        _take_over(target, policy, event_id)
    with store.transaction() as txn:  # step 4
        txn.put(POSITION_KEY, Position(event_id).to_bytes())
    return BootstrapResult(policy.name, event_id, source_exists=database is not None, repeated=False)


def _find_source_database(source: Metastore, policy: Policy) -> Database | None:
    try:
        return source.get_database(policy.source_db)
    except NotFound:
        return None


def _require_empty(source: Metastore, policy: Policy, *, exists: bool) -> None:
    tables = (
        [name for name in source.table_names(policy.source_db) if policy.covers(policy.source_db, name)]
        if exists
        else []
    )
    if tables:
        raise Unsupported(
            "the source database already has tables",
            key=f"policies.{policy.name}.database",
            value=policy.source_db,
            tables=tables[:10],
            hint="This version can bootstrap only databases that are empty or do not exist yet.",
        )


def _prepare_target(target: Metastore, policy: Policy, database: Database, event_id: int) -> None:
    _require_no_tables(target, policy)
    created = to_target_database(database, policy)
    created.parameters = {**(created.parameters or {}), LAST_ID: str(event_id)}
    try:
        target.create_database(created)
    except AlreadyExists:
        _take_over(target, policy, event_id)


def _take_over(target: Metastore, policy: Policy, event_id: int) -> None:
    """Make an existing, empty target database a replica; an id left there by an earlier replica would hide events."""
    _require_no_tables(target, policy)
    try:
        present = target.get_database(policy.target_db)
    except NotFound:
        return
    present.parameters = {**(present.parameters or {}), TARGET_FOR: "true", LAST_ID: str(event_id)}
    target.alter_database(policy.target_db, present)


def _require_no_tables(target: Metastore, policy: Policy) -> None:
    try:
        tables = target.table_names(policy.target_db)
    except NotFound:
        return
    if tables:
        raise TargetDiverged(
            "the target database is not empty",
            key=f"policies.{policy.name}.target_database",
            value=policy.target_db,
            tables=tables[:10],
            hint="Choose another target database, or drop it on the target.",
        )
