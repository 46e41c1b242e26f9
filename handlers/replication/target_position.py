"""``repl.last.id``: the position that the target database itself carries.

It shows users and Hive's own tools how far the replica is, and it guards the transaction map. On a real Hive 4, opening a
source transaction again after its commit opens a *new* target transaction, and allocating its write id again moves the table's
counter back and forgets other write ids (reference: stack/hive4, samples/_semantics.txt). Therefore the id of the previous
event is written here before every commit and abort. After a restart, events up to this id are recorded but not applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.errors import NotFound, TargetDiverged


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy


LAST_ID: Final = "repl.last.id"
INCOMPATIBLE: Final = "repl.incompatible"


class TargetPosition:
    """The target database's ``repl.last.id``, with the value that was last read or written."""

    def __init__(self, target: Metastore, policy: Policy) -> None:
        self._target = target
        self._policy = policy
        self.written: int | None = None

    def read(self) -> int | None:
        """Read the position; None if the database does not exist or was never replicated into.

        Raises TargetDiverged if Hive marked the database as incompatible, because a replayed transaction was ended by others.
        """
        try:
            database = self._target.get_database(self._policy.target_db)
        except NotFound:
            self.written = None
            return None
        parameters = database.parameters or {}
        if parameters.get(INCOMPATIBLE, "").lower() == "true":
            raise TargetDiverged(
                "a replayed transaction was ended outside of replication",
                database=self._policy.target_db,
                key=INCOMPATIBLE,
                value="true",
                hint="Bootstrap the policy again; never abort transactions of user 'tideline' by hand.",
            )
        text = parameters.get(LAST_ID)
        self.written = int(text) if text is not None and text.isdecimal() else None
        return self.written

    def advance(self, event_id: int) -> None:
        """Write ``event_id`` unless the position is already there or beyond; do nothing if the database does not exist.

        A change of this parameter alone logs no event on the target, so a chained replication does not see it (§0b).
        """
        if self.written is not None and self.written >= event_id:
            return
        try:
            database = self._target.get_database(self._policy.target_db)
            database.parameters = {**(database.parameters or {}), LAST_ID: str(event_id)}
            self._target.alter_database(self._policy.target_db, database)
        except NotFound:
            return
        self.written = event_id

    def check_writable(self) -> None:
        """Write the database's parameters unchanged, which shows that the metastore and its database accept writes.

        Raises the error of the metastore if they do not.
        """
        database = self._target.get_database(self._policy.target_db)
        self._target.alter_database(self._policy.target_db, database)

    def forget(self) -> None:
        """Forget the written value, because the database was dropped."""
        self.written = None
