"""Repairs differing tables: loads them again through the running daemon while all others stream, and verifies them once more.

A load replaces the whole table on the target as of one event, so it repairs every kind of difference, including a table that only one side
has. Differences of the database itself are not repaired by loads; they are reported.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from handlers.replication.verification.findings import Outcome


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.replica.verification.following import ReplicaFollowing
    from handlers.replication.verification.findings import TableResult


TABLES_PER_REQUEST: Final = 200
"""Requests to the daemon are limited in size."""
POLL_S: Final = 0.5
GRACE_S: Final = 15.0
"""How long after the request a table may still look as before, because the daemon's status is older than its answer."""


def find_repairable(results: Sequence[TableResult]) -> list[str]:
    """Return the tables that differ."""
    return [result.table for result in results if result.outcome is Outcome.DIFFERS and result.table]


def request_loads(tables: Sequence[str], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Request a load of each table; ``ask`` sends a request to the policy."""
    for start in range(0, len(tables), TABLES_PER_REQUEST):
        some = list(tables[start : start + TABLES_PER_REQUEST])
        ask({"do": "load", "tables": some, "reason": "repair"})


@dataclass(slots=True)
class Repair:
    """Waits until requested loads are done, and verifies."""

    following: ReplicaFollowing
    verify: Callable[[Sequence[str]], list[TableResult]]
    show: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep

    def finish(self, tables: Sequence[str]) -> list[TableResult]:
        """Wait for the loads of ``tables``, and return the outcomes of a verification after them."""
        grace_until = self.clock() + GRACE_S
        while True:
            self._wait_for_loads(tables)
            results = self.verify(tables)
            loading = self.following.loading()
            if all(result.outcome is Outcome.EQUAL for result in results):
                return results
            if self.clock() >= grace_until and not any(result.table in loading for result in results):
                return results
            self.pause(POLL_S)

    def _wait_for_loads(self, tables: Sequence[str]) -> None:
        while True:
            loading = self.following.loading()
            waiting = [table for table in tables if table in loading]
            if not waiting:
                return
            self.show(f"{len(tables) - len(waiting)} of {len(tables)} tables are loaded; {waiting[0]}")
            self.pause(POLL_S)
