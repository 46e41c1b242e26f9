"""The claim of the target database: each process makes it once, when it first opens the policy.

The order of the steps matters, because the process may be killed between any two:

1. Compare the target with the policy's state: a target restored from a backup, or that is a replica of
   another source, is refused before anything is written.
2. Write the new epoch to the state file.
3. Write it to the target. From then on, an older instance is fenced. The target logs one ALTER_DATABASE event
   for it.

A later open of the same process, after an error, only compares. Otherwise two running instances would take
the target from each other again and again. There are two exceptions: an operator's request
(``ReplicationProjection.forget_claim``), and a replaced instance that wrote over the claim, because it had
read the database's parameters before it (``fencing.require_held``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from handlers.files.paths import parse_location
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.policy.policy import Policy
from handlers.replication.tables.kept_entries import parse_entries
from handlers.replication.tables.pause import put_pause
from handlers.replication.tables.table_entries import LeftTable
from handlers.replication.target import fencing
from handlers.replication.target.fencing import Claim
from handlers.replication.target.target_position import LAST_ID
from state.errors import ConfigError, Fenced, Interrupted, StateCorrupt, Unsupported
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store, Transaction


CLAIM_KEY: Final = b"target/claim"
WRITTEN_KEY: Final = b"target/last-id"
"""The ``repl.last.id`` that was on the target when the state was recorded."""


DATABASE_KEY: Final = b"target/database"
"""The name of the target database that the state belongs to."""
BASE_KEY: Final = b"target/external-base"
"""``external_base`` of the policy when the state was written; empty if the target chose the locations of
external tables.
"""


@dataclass(frozen=True, slots=True)
class OpenedTarget:
    """Result of opening the target database."""

    last_id: int | None
    """The target's position; None if the database does not exist or has none."""
    outdated: bool = False
    """Whether another instance held the target since the state file was written."""


class TargetClaim:
    """Claims one policy's target database, and records the writes to it."""

    def __init__(self, context: Context, store: Store, source_name: str) -> None:
        self._context = context
        self._store = store
        self._source_name = source_name

    def open(self, *, state_lost: bool = False) -> OpenedTarget:
        """Claim the database, or compare if this process has claimed it before.

        If the state file is lost or out of date, takes the quarantine, the waiting loads and the pause from
        the target. Raises the errors of ``TargetPosition.check``, except for a missing database, and
        ConfigError if the policy was retired, or if the state belongs to another target database or to
        another ``external_base``.
        """
        self._require_same_database()
        self._require_same_base()
        position = self._context.target_position
        if position.stamp:
            try:
                return OpenedTarget(position.read())
            except Interrupted:  # the replaced instance wrote over the claim
                position.forget_claim()
        position.read()  # refuses a database that Hive marked as incompatible
        parameters = position.find_parameters()
        identity = fencing.describe_source(
            self._source_name, self._context.policy.source_db, _find_uuid(self._context.source)
        )
        claim, last_id = self._load_claim(), self._load_last_id()
        outdated = parameters is not None and self._examine(parameters, claim, last_id, identity)  # step 1
        taken_over = parameters if state_lost or outdated else None
        if taken_over is not None:
            self._restore(taken_over)
        on_target = (parameters or {}).get(fencing.EPOCH)
        epoch = fencing.next_epoch(on_target, claim.epoch if claim is not None else None)
        with self._store.transaction() as txn:  # step 2
            txn.put(CLAIM_KEY, Claim(epoch, on_target).to_bytes())
            txn.put(DATABASE_KEY, self._context.policy.target_db.encode())
            txn.put(BASE_KEY, _format_base(self._context.policy).encode())
            self._context.tables.quarantine.flush(txn)
            self._context.tables.loads.flush(txn)
            self._context.tables.left.flush(txn)
            if taken_over is not None:
                put_pause(parse_entries(taken_over).paused_since_s, txn)
        stamp = {
            fencing.EPOCH: epoch,
            fencing.INSTANCE: fencing.describe_instance(),
            fencing.SOURCE: identity,
        }
        position.claim(stamp, last_id, self._context.tables.to_parameters(self._store), on_target)  # step 3
        return OpenedTarget(None if parameters is None else position.written, outdated)

    def require_own(self) -> int:
        """Return the target's position without a claim;
        raise Fenced unless the database is as this state left it.

        Does not query the source, because it may be gone.
        """
        self._require_same_database()
        database, claim = self._context.policy.target_db, self._load_claim()
        parameters = self._context.target_position.find_parameters() or {}
        others = fencing.was_held_by_others(
            claim, parameters, last_id=self._load_last_id(), database=database
        )
        if claim is None or others:
            raise Fenced(
                "another instance took over the target database",
                database=database,
                holder=parameters.get(fencing.INSTANCE),
                epoch=parameters.get(fencing.EPOCH),
                own_epoch=None if claim is None else claim.epoch,
            )
        text = parameters.get(LAST_ID, "")
        return int(text) if text.isdecimal() else -1

    def _require_same_database(self) -> None:
        """Raise ConfigError if ``target_database`` was changed: the new database has none of the tables
        that the state relies on.
        """
        stored, policy = self._store.get(DATABASE_KEY), self._context.policy
        if stored is not None and stored.decode() != policy.target_db:
            raise ConfigError(
                "the policy previously replicated into another target database",
                key=f"policies.{policy.name}.target_database",
                value=policy.target_db,
                expected=stored.decode(),
                hint="Restore the setting. To replicate into the new database, give the policy another "
                "name and bootstrap it.",
            )

    def _require_same_base(self) -> None:
        """Raise ConfigError if ``external_base`` was changed: files would go below the new base, but the
        tables would stay below the former one.
        """
        stored, policy = self._store.get(BASE_KEY), self._context.policy
        if stored is not None and stored.decode() != _format_base(policy):
            former = stored.decode()
            raise ConfigError(
                "the policy was bootstrapped with another base for external tables"
                if former
                else "the policy was bootstrapped without a base for external tables",
                key=f"policies.{policy.name}.external_base",
                value=policy.external_base,
                expected=former or None,
                hint=f"{'Restore' if former else 'Remove'} the setting. To change it, see "
                "docs/guides/policies.md#settings-that-a-policy-keeps.",
            )

    def _examine(
        self, parameters: Mapping[str, str], claim: Claim | None, last_id: int | None, identity: str
    ) -> bool:
        """Compare the target with the state (step 1); return whether the state is out of date.

        The target's position is never ahead of an up-to-date state.
        """
        database, name = self._context.policy.target_db, self._context.policy.name
        if parameters.get(fencing.RETIRED) == name:
            raise fencing.retired_policy(name)
        found = parameters.get(fencing.SOURCE, identity)
        if found != identity:
            raise fencing.other_source(database, found, identity)
        others = fencing.was_held_by_others(claim, parameters, last_id=last_id, database=database)
        return others or (claim is not None and self._is_behind(parameters))

    def _is_behind(self, parameters: Mapping[str, str]) -> bool:
        stored, on_target = self._store.get(POSITION_KEY), parameters.get(LAST_ID, "")
        return (
            stored is not None
            and on_target.isdecimal()
            and Position.from_bytes(stored).event_id < int(on_target)
        )

    def _restore(self, parameters: Mapping[str, str]) -> None:
        """Take over the entries of tables from the target; without a complete list, every table waits for a
        load.
        """
        context, entries = self._context, parse_entries(parameters)
        context.tables.quarantine.remove_all()
        for entry in entries.quarantined:
            context.tables.quarantine.put(entry)
        context.tables.left.remove_all()
        for table in entries.left:
            context.tables.left.put(LeftTable(table))
        waiting = dict(entries.waiting)
        if not entries.complete:
            present = context.target.table_names(context.policy.target_db)
            covered = [table for table in present if context.policy.covers(context.policy.source_db, table)]
            waiting = {table: waiting.get(table, "repair") for table in {*covered, *waiting}}
        for table, reason in sorted(waiting.items()):
            context.tables.quarantine.remove(table)
            if not context.tables.loads.is_waiting(table):
                context.tables.loads.request(table, reason)

    def record(self, txn: Transaction) -> None:
        """Record the target's position in the store transaction of the policy's own position, once known."""
        if not self._context.target_position.stamp:
            return
        written = self._context.target_position.written
        if written is None:
            txn.delete(WRITTEN_KEY)
        else:
            txn.put(WRITTEN_KEY, str(written).encode())

    def _load_claim(self) -> Claim | None:
        stored = self._store.get(CLAIM_KEY)
        return None if stored is None else Claim.from_bytes(stored)

    def _load_last_id(self) -> int | None:
        stored = self._store.get(WRITTEN_KEY)
        if stored is None:
            return None
        if not stored.isdigit():
            raise StateCorrupt("the target's position in the state cannot be read", value=stored)
        return int(stored)


def _format_base(policy: Policy) -> str:
    return "" if policy.external_base is None else str(parse_location(policy.external_base))


def _find_uuid(source: Metastore) -> str | None:
    """Return the identity of the source's metastore; None if it has none (Hive 2.3)."""
    try:
        return source.metastore_uuid()
    except Unsupported:
        return None
