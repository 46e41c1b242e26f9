"""Bootstrap of a policy: where following starts.

Today for a source database that is empty or not there yet, so that everything it will ever hold comes through events. The
event id is taken before the database is looked at (HIVE-19927: the other order loses what happens in between); a table made
meanwhile is then both seen and announced, so a database that holds tables in scope is refused. Loading what is there already
takes its place between ``_require_empty`` and the moment the position is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.replication.effects.databases import mark_source
from handlers.replication.target_objects import LAST_ID, TARGET_FOR, to_target_database
from state.errors import AlreadyExists, NotFound, TargetDiverged, Unsupported
from state.positions import POSITION_KEY, Position


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy
    from handlers.structs.objects import Database
    from state.store import Store


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """How a bootstrap ended."""

    policy: str
    event_id: int
    """Following starts after this event."""
    source_exists: bool
    repeated: bool
    """True where it had been done before and nothing was changed."""


def bootstrap(*, source: Metastore, target: Metastore, policy: Policy, store: Store) -> BootstrapResult:
    """Prepare source and target databases and record the position; doing it again changes nothing.

    Raises Unsupported where the source database holds tables in scope, TargetDiverged where the target database holds tables
    that no replication put there.
    """
    done = store.get(POSITION_KEY)
    if done is not None:
        return BootstrapResult(
            policy.name, Position.from_bytes(done).event_id, source_exists=True, repeated=True
        )
    event_id = source.current_event_id()
    database = _source_database(source, policy)
    _require_empty(source, policy, exists=database is not None)
    if database is not None:
        mark_source(source, policy)
        _prepare_target(target, policy, database, event_id)
    else:
        _take_over(target, policy, event_id)
    with store.transaction() as txn:
        txn.put(POSITION_KEY, Position(event_id).to_bytes())
    return BootstrapResult(policy.name, event_id, source_exists=database is not None, repeated=False)


def _source_database(source: Metastore, policy: Policy) -> Database | None:
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
            "the source database holds tables already",
            key=f"policies.{policy.name}.database",
            value=policy.source_db,
            tables=tables[:10],
            hint="Only empty or not yet existing databases can be bootstrapped by this version.",
        )


def _prepare_target(target: Metastore, policy: Policy, database: Database, event_id: int) -> None:
    _require_no_tables(target, policy)
    wanted = to_target_database(database, policy)
    wanted.parameters = {**(wanted.parameters or {}), LAST_ID: str(event_id)}
    try:
        target.create_database(wanted)
    except AlreadyExists:
        _take_over(target, policy, event_id)


def _take_over(target: Metastore, policy: Policy, event_id: int) -> None:
    """Make an empty target database ours, where there is one: an id left by an earlier replica would hide events from us."""
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
