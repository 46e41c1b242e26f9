"""``repl.last.id``: the position that the target database itself carries,
and the proof that this instance may raise it.

It shows users and Hive's own tools how far the replica is, and a policy that lost its state file continues
from it. It follows the position of the state within a second (``position.progress``) and is never ahead of
it. After a restart, replay records events up to this id without applying them.

All parameters of the database come with one read, so every read checks all of them: Hive's mark of
incompatibility, the epoch (``fencing``), the source's identity, and that ``repl.last.id`` is the value last
written here. The metastore has no compare-and-set for databases. Reading, checking and writing therefore
follow each other immediately, under one lock, on their own connection; and ``require_held`` repeats the check
in front of every other write to the target if the last one is older than ``FRESH_S``. One case remains: a
process stopped between its check and the sending of one request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.tables.kept_entries import select_kept
from handlers.replication.target import fencing
from handlers.replication.target.fencing import Claim
from handlers.structs.objects import Database
from state.errors import NotFound, TargetDiverged


LAST_ID: Final = "repl.last.id"
INCOMPATIBLE: Final = "repl.incompatible"
FRESH_S: Final = 1.0
"""Maximum age of the last check of the epoch at a write to the target. A process that was stopped for longer
checks again.
"""


class TargetPosition:
    """The parameters of the target database that belong to replication; thread-safe."""

    def __init__(
        self,
        target: Metastore,
        policy: Policy,
        *,
        clock: Callable[[], float] = time.monotonic,
        found: Callable[[Database], None] = lambda _: None,
    ) -> None:
        """Use a clone of ``target``; ``found`` gets the database whenever it is read."""
        self._found = found
        self._target = target.clone(guard=self.require_held)
        self._policy = policy
        self._clock = clock
        self._lock = threading.RLock()
        self._checked_s = float("-inf")
        self._attempted: int | None = None
        """The position of a call that may have been applied although its answer is missing."""
        self.written: int | None = None
        """The position last read or written; None if the database has none, or does not exist."""
        self._kept: Mapping[str, str] = {}
        """The parameters with the entries of tables (``kept_entries``) written last."""
        self.stamp: Mapping[str, str] = {}
        """The parameters that mark the database as held by this process; empty until ``claim``."""
        self._replaced: str | None = None
        """The epoch that ``claim`` found."""

    def open_client(self) -> Metastore:
        """Return another client of the target, whose writes need the claim, too."""
        return self._target.clone()

    def read(self) -> int | None:
        """Read the position; None if the database does not exist or was never replicated into.

        Accepts any position before the claim. Raises the errors of ``check``.
        """
        with self._lock:
            parameters = self._fetch()
            if parameters is None:
                return None
            self._examine(parameters)
            return self.written

    def check(self, *, may_be_missing: bool = False) -> None:
        """Check before a batch that the target is as this process left it;
        ``may_be_missing`` if the batch drops the database.

        Raises Fenced if another instance took over, Interrupted if the replaced one wrote over the claim,
        TargetDiverged if Hive marked the database as incompatible because a replayed transaction was ended
        by others, if its position was moved, if it counts the events of another source, or if the database
        is gone.
        """
        with self._lock:
            parameters = self._fetch()
            if parameters is not None:
                self._examine(parameters)
            elif self.written is not None and not may_be_missing:
                raise TargetDiverged(
                    "the target database is gone, although no event dropped it",
                    database=self._policy.target_db,
                    hint="Restore it; or stop the daemon, move the policy's state file away, and run "
                    f"'tideline bootstrap {self._policy.name}'.",
                )

    def find_parameters(self) -> dict[str, str] | None:
        """Return the database's parameters without any check; None if it does not exist."""
        with self._lock:
            return self._fetch()

    def claim(
        self,
        stamp: Mapping[str, str],
        last_id: int | None,
        kept: Mapping[str, str],
        replaced: str | None = None,
    ) -> None:
        """Mark the database, if it exists, as held by this process; from now on, every read checks the mark.

        ``last_id`` is the position that the policy's state wrote last, used only if the database does not
        exist; ``kept`` are the parameters with the entries of tables; ``replaced`` is the epoch found there.
        """
        with self._lock:
            self.written, self._attempted, self._replaced = last_id, None, replaced
            try:
                self.update(lambda database: _put(database, stamp, kept))
            except NotFound:
                self.stamp, self._kept = dict(stamp), kept
                return
            self._kept = kept
            self.stamp = dict(stamp)
            self.written = _last_id(self._fetch() or {})

    def forget_claim(self) -> None:
        """Forget that this process holds the database, so that it has to claim it again."""
        self.stamp = {}

    def advance(
        self, event_id: int, kept: Mapping[str, str], *, without: AbstractSet[str] = frozenset()
    ) -> None:
        """Write ``event_id`` unless the position is already there or beyond;
        do nothing if the database does not exist.

        The same call writes the parameters ``kept`` with the entries of tables if they changed, and removes
        those named ``without``. It makes the checks of ``check``, except for a missing database. A change
        of this parameter alone logs no event on the target, so a chained replication does not see it
        (hive-replication.md §3.3).
        """
        with self._lock:
            database = self._read()
            if database is None:
                return
            parameters = database.parameters or {}
            self._examine(parameters)
            raised = max(event_id, -1 if self.written is None else self.written)
            if self.written != raised or select_kept(parameters) != kept or without & parameters.keys():
                self._attempted = raised
                database.parameters = {k: v for k, v in parameters.items() if k not in without}
                changed = _put(database, {LAST_ID: str(raised)}, kept)
                self._target.alter_database(self._policy.target_db, changed)
            self.written, self._attempted, self._kept = raised, None, kept

    def has(self, kept: Mapping[str, str]) -> bool:
        """Whether the target has these entries of tables, as far as this process knows."""
        return self._kept == kept

    def update(self, change: Callable[[Database], Database]) -> None:
        """Replace the database by the result of ``change``, immediately after reading it; raise NotFound if
        it does not exist.

        Every change of the target database goes through here: two concurrent ones would undo each other.
        """
        with self._lock:
            started_s = self._clock()
            database = self._target.get_database(self._policy.target_db)
            self._require_held(database.parameters or {}, started_s)
            self._target.alter_database(self._policy.target_db, change(database))

    def require_held(self) -> None:
        """Raise Fenced if another instance holds the database;
        reads it only if the last check is older than ``FRESH_S``.

        Called in front of every write to the target's metastore and files, in any thread.
        """
        if not self.stamp:
            return
        with self._lock:
            if self._clock() - self._checked_s > FRESH_S:
                self._fetch()

    def check_writable(self) -> None:
        """Write the database's parameters unchanged,
        which shows that the metastore and its database accept writes.

        Raises the error of the metastore if they do not.
        """
        self.update(lambda database: database)

    def forget(self) -> None:
        """Forget the written value, because the database was dropped."""
        self.written, self._attempted = None, None

    def release(self, change: Callable[[Database], Database]) -> None:
        """Release the claim with this last ``change`` of the database, which removes the parameters checked
        here.
        """
        with self._lock:
            self.update(change)
            self.stamp, self.written, self._attempted = {}, None, None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._target.close()

    def _fetch(self) -> dict[str, str] | None:
        """Return the database's parameters; None if it does not exist.
        Raises Fenced if another instance holds it.
        """
        database = self._read()
        return None if database is None else database.parameters or {}

    def _read(self) -> Database | None:
        """Return the database; None if it does not exist. Raises Fenced if another instance holds it."""
        started_s = self._clock()
        try:
            database = self._target.get_database(self._policy.target_db)
        except NotFound:
            self._checked_s = started_s
            return None
        self._found(database)
        self._require_held(database.parameters or {}, started_s)
        return database

    def _require_held(self, parameters: Mapping[str, str], started_s: float) -> None:
        if self.stamp:
            claim = Claim(self.stamp[fencing.EPOCH], self._replaced)
            fencing.require_held(parameters, claim, self._policy.target_db)
        self._checked_s = started_s

    def _examine(self, parameters: Mapping[str, str]) -> None:
        """Check everything but the epoch, and take over the position read."""
        self._require_compatible(parameters)
        last_id = _last_id(parameters)
        if self.stamp:
            self._require_source(parameters)
            if last_id != self.written and (last_id is None or last_id != self._attempted):
                raise self._moved(last_id)
        self.written, self._attempted = last_id, None

    def _require_compatible(self, parameters: Mapping[str, str]) -> None:
        if parameters.get(INCOMPATIBLE, "").lower() == "true":
            raise TargetDiverged(
                "a replayed transaction was ended outside of replication",
                database=self._policy.target_db,
                key=INCOMPATIBLE,
                value="true",
                hint="Bootstrap the policy again; never abort transactions of user 'tideline' manually.",
            )

    def _require_source(self, parameters: Mapping[str, str]) -> None:
        source, expected = parameters.get(fencing.SOURCE), self.stamp[fencing.SOURCE]
        if source != expected:
            raise fencing.other_source(self._policy.target_db, source, expected)

    def _moved(self, last_id: int | None) -> TargetDiverged:
        """Return the error for a position that this process did not write."""
        if last_id is None or (self.written is not None and last_id < self.written):
            return fencing.restored_target(self._policy.target_db, last_id, self.written)
        return TargetDiverged(
            "another client raised the target's position",
            database=self._policy.target_db,
            key=LAST_ID,
            value=last_id,
            expected=self.written,
            hint="Stop the other client, set the parameter to the expected value, and run 'tideline verify'.",
        )


def _put(database: Database, parameters: Mapping[str, str], kept: Mapping[str, str]) -> Database:
    """Put ``parameters`` and the ``kept`` entries into ``database``, in place of earlier ones."""
    present = database.parameters or {}
    others = {key: value for key, value in present.items() if key not in select_kept(present)}
    database.parameters = {**others, **parameters, **kept}
    return database


def _last_id(parameters: Mapping[str, str]) -> int | None:
    text = parameters.get(LAST_ID)
    return int(text) if text is not None and text.isdecimal() else None
