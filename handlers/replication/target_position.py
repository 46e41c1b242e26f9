"""``repl.last.id``: the position that the target database itself carries.

It is the truth that a newcomer (or Hive's own tools) can read, and the guard of the transaction map: on a real Hive 4, opening
a source transaction again after its commit opens a *new* target transaction, and allocating its write id again moves the
table's counter back and forgets other write ids (reference: stack/hive4, samples/_semantics.txt). So before every commit and
abort the id of the previous event is written here, and after a restart events up to it are only remembered, never applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.replication.target_objects import INCOMPATIBLE, LAST_ID
from state.errors import NotFound, TargetDiverged


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy


class TargetPosition:
    """The target database's ``repl.last.id``, and what stands there already."""

    def __init__(self, target: Metastore, policy: Policy) -> None:
        self._target = target
        self._policy = policy
        self.written: int | None = None

    def read(self) -> int | None:
        """Read it; None where the database is not there or was never replicated into.

        Raises TargetDiverged where Hive has marked the database as incompatible: somebody ended one of our transactions.
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
        """Write ``event_id`` unless that or a later one stands there; a database that is not there yet is no error.

        Changing only this parameter logs no event on the target, so a chained replication does not see it (§0b).
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

    def forget(self) -> None:
        """Note that the database is gone."""
        self.written = None
