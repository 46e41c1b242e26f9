"""The beginning and the end of a policy's bootstrap; the loads in between are in ``bootstrap_run``.

The order of the steps, each repeatable after a crash:

1. Read the source's current event id L. Read the database only after that: in the other order, changes in
   between would be lost (HIVE-19927).
2. Mark the source database: its change manager then keeps deleted files. Create the target database, or take
   over an empty one or an unfinished bootstrap. While it is unfinished, the database carries
   ``tideline.bootstrap``, and Hive does not compact it.
3. Record the position L, and a waiting load for each table in scope, in one store transaction.
4. Load all tables, each as of its own event after L.
5. Remove the marks and write ``repl.last.id`` = L to the target database; then forget that the bootstrap is
   unfinished.

Following starts after L. Replay skips the events of each table up to that of its load. A table created after
L comes from its events alone.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from handlers.replication.effects.databases import TARGET_FOR, list_tables, mark_source, to_target_database
from handlers.replication.loading.reuse import detach_tables
from handlers.replication.tables.kept_entries import PAUSED
from handlers.replication.tables.table_loads import TableLoad, TableLoads
from handlers.replication.target.fencing import RETIRED
from handlers.replication.target.objects import owns_data
from handlers.replication.target.target_position import LAST_ID
from state.errors import NotFound, TargetDiverged
from state.event_log.positions import POSITION_KEY, Position


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.metastore.client import Metastore
    from handlers.replication.context import Context
    from handlers.replication.policy.policy import Policy
    from handlers.structs.objects import Database
    from state.store import Reader, Store


PROMOTED: Final = "tideline.promoted"
"""Names the policy and the event of a promotion that ended an earlier replica
(``handlers.replication.operations.promotion``)."""
BOOTSTRAP: Final = "tideline.bootstrap"
PENDING: Final = "pending"
NO_COMPACTION: Final = "hive.repl.first.inc.pending"
"""While this parameter is ``true``, Hive's initiator does not compact tables of the database (reference:
hive-replication.md §3.3).
"""
PENDING_KEY: Final = b"bootstrap/pending"
REQUESTED_KEY: Final = b"bootstrap/requested"
"""Key of an operator's request for the bootstrap. Only a policy without a position reads it."""
_REUSE_FILES: Final = b"reuse-files"


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """The outcome of a bootstrap."""

    policy: str
    event_id: int
    """Following starts after this event."""
    repeated: bool
    """True if the policy had its bootstrap already and nothing changed."""
    tables: int = 0
    """Tables and views to load."""


@dataclass(frozen=True, slots=True)
class BootstrapRequest:
    """A request to bootstrap a policy. The policy's loop serves it as soon as its turn comes."""

    policy: str
    reuse_files: bool = False
    """Whether to replace the tables of the target, and keep files that are equal (``begin_bootstrap``)."""


def begin_bootstrap(
    *, source: Metastore, target: Metastore, policy: Policy, store: Store, reuses_files: bool = False
) -> BootstrapResult:
    """Prepare source and target databases and record the objects to load (steps 1 to 3); a repetition changes
    nothing.

    If there is nothing to load, the bootstrap is complete afterwards. Otherwise ``run_bootstrap`` continues
    it. Raises TargetDiverged if the target database has tables that no bootstrap of this policy created. With
    ``reuses_files``, it replaces them instead and copies only files that differ (``reuse``).
    """
    recorded = store.get(POSITION_KEY)
    if recorded is not None:
        event_id = Position.from_bytes(recorded).event_id
        return BootstrapResult(policy.name, event_id, repeated=not is_pending(store))
    event_id = source.current_event_id()  # step 1
    database = _find_source_database(source, policy)
    names = [] if database is None else list_tables(source, policy)
    if database is not None:
        mark_source(source, policy)  # step 2
    if reuses_files:
        _detach_tables(source, target, policy, names)
    _prepare_target(target, policy, database, event_id, names)
    failpoint("bootstrap.after-databases")
    _record(store, event_id, names)  # step 3
    failpoint("bootstrap.after-begin")
    return BootstrapResult(policy.name, event_id, repeated=False, tables=len(names))


def is_pending(reader: Reader) -> bool:
    """Whether the policy's bootstrap is unfinished."""
    return reader.get(PENDING_KEY) is not None


def store_request(request: BootstrapRequest, store: Store) -> None:
    """Store the request of an operator to bootstrap a new policy; it replaces an earlier one."""
    with store.transaction() as txn:
        txn.put(REQUESTED_KEY, _REUSE_FILES if request.reuse_files else b"")


def find_request(policy: str, reader: Reader) -> BootstrapRequest | None:
    """Return the request of an operator to bootstrap the policy if there is one."""
    stored = reader.get(REQUESTED_KEY)
    return None if stored is None else BootstrapRequest(policy, reuse_files=stored == _REUSE_FILES)


def finish_bootstrap(context: Context, store: Store) -> None:
    """Complete the bootstrap: the target database becomes a replica as of the event at its beginning (step
    5).
    """
    event_id = store.get(PENDING_KEY)
    if event_id is None:
        return
    failpoint("bootstrap.before-finish")
    context.target_position.advance(
        int(event_id), context.tables.to_parameters(store), without={BOOTSTRAP, NO_COMPACTION}
    )
    failpoint("bootstrap.after-last-id")
    with store.transaction() as txn:
        txn.delete(PENDING_KEY)
    failpoint("bootstrap.after-finish")


def _record(store: Store, event_id: int, names: Sequence[str]) -> None:
    loads = TableLoads()
    for name in names:
        loads.put(TableLoad(name, uuid.uuid4().hex, "bootstrap", int(time.time())))
    with store.transaction() as txn:
        loads.flush(txn)
        txn.put(POSITION_KEY, Position(event_id).to_bytes())
        if names:
            txn.put(PENDING_KEY, str(event_id).encode())


def _find_source_database(source: Metastore, policy: Policy) -> Database | None:
    try:
        return source.get_database(policy.source_db)
    except NotFound:
        return None


def _prepare_target(
    target: Metastore, policy: Policy, database: Database | None, event_id: int, names: Sequence[str]
) -> None:
    """Create the target database with the marks of a bootstrap, or put them on an existing one.

    If there is nothing to load, the database gets the new ``repl.last.id`` at once, because an id left there
    by an earlier replica would hide events.
    """
    marks = {BOOTSTRAP: PENDING, NO_COMPACTION: "true"} if names else {LAST_ID: str(event_id)}
    try:
        target_database = target.get_database(policy.target_db)
    except NotFound:
        if database is not None:
            created = to_target_database(database, policy)
            created.parameters = {**(created.parameters or {}), **marks}
            target.create_database(created)
        return
    _require_no_tables(target, policy, target_database, names)
    other_parameters = {
        k: v
        for k, v in (target_database.parameters or {}).items()
        if k not in {LAST_ID, BOOTSTRAP, NO_COMPACTION, PROMOTED, RETIRED, PAUSED}
    }
    target_database.parameters = {**other_parameters, TARGET_FOR: "true", **marks}
    target.alter_database(policy.target_db, target_database)


def _detach_tables(source: Metastore, target: Metastore, policy: Policy, names: Sequence[str]) -> None:
    """Drop the tables of the target database without their files, unless this bootstrap has begun already."""
    try:
        target_database = target.get_database(policy.target_db)
    except NotFound:
        return
    if (target_database.parameters or {}).get(BOOTSTRAP) != PENDING:
        detach_tables(source=source, target=target, policy=policy, database=target_database, names=names)


def _require_no_tables(target: Metastore, policy: Policy, database: Database, names: Sequence[str]) -> None:
    """Require that the database has no tables;
    drop those of an unfinished bootstrap that the source does not have.
    """
    tables = target.table_names(policy.target_db)
    if (database.parameters or {}).get(BOOTSTRAP) == PENDING:
        for name in set(tables) - set(names):
            with suppress(NotFound):
                table = target.get_table(policy.target_db, name)
                target.drop_table(policy.target_db, name, delete_data=owns_data(table))
    elif tables:
        raise TargetDiverged(
            "the target database is not empty",
            key=f"policies.{policy.name}.target_database",
            value=policy.target_db,
            tables=tables[:10],
            hint="Choose another target database, or drop it on the target.",
        )
