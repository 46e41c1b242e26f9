"""Proofs of commits: a commit is proven by reading the write-id lists of its tables, because Hive answers a wrong one with success."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from handlers.replication.transactions.target_write_ids import require_committed


if TYPE_CHECKING:
    from handlers.replication.context import Context
    from state.transactions.unproven_commits import UnprovenCommit


class CommitProofs:
    """Proves the commits of one policy, many with one read (``state.transactions.unproven_commits``)."""

    def __init__(self, context: Context, *, waiting_max: int = 0) -> None:
        """Up to ``waiting_max`` commits may wait for their proof; more are proven at once."""
        self._context = context
        self._waiting_max = waiting_max

    def add(self, commit: UnprovenCommit) -> None:
        """Note a commit that was sent; raise as ``prove`` does."""
        self._context.tables.unproven.add(commit)
        if len(self._context.tables.unproven) > self._waiting_max:
            self.prove()

    def prove(self) -> None:
        """Prove the commits that were sent since the last proof; raise TargetDiverged if one has no effect."""
        unproven = self._context.tables.unproven
        if unproven:
            failpoint("replay.before-proof")
            require_committed(self._context, unproven.commits())
            unproven.clear()
            failpoint("replay.after-proof")
