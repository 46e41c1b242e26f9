"""Commits sent to the target and not proven yet.

The target answers a commit under a wrong policy text, or of an unknown transaction, with success. So every
commit is proven by reading write-id lists. One read proves many commits, and therefore they wait here. They
are in the store with the position: the proof follows even if the process dies first, or the position has
passed the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end
from state.transactions.open_transactions import SourceTxn


_PREFIX: Final = b"unproven/"


@dataclass(frozen=True, slots=True)
class UnprovenCommit:
    """A commit and its expected visible result."""

    txn_id: int
    target_txn: int | None
    """The target's transaction, if replay has opened it."""
    write_ids: Mapping[str, int]
    """The write id in each table (``db.tbl`` as the source names it)."""

    @staticmethod
    def of(txn: SourceTxn) -> UnprovenCommit:
        """Return the commit of a transaction."""
        return UnprovenCommit(
            txn.txn_id, txn.target_txn, {each.table: each.write_id for each in txn.allocations}
        )


class UnprovenCommits:
    """The unproven commits of one policy, in the order in which they were sent."""

    def __init__(self) -> None:
        self._commits: dict[int, UnprovenCommit] = {}
        self._stored: dict[int, UnprovenCommit] = {}
        """Those in the store."""

    def load(self, reader: Reader) -> None:
        """Replace the memory by the store's content; raise StateCorrupt if it is unreadable."""
        self._commits.clear()
        for key, value in reader.scan(_PREFIX, prefix_end(_PREFIX)):
            try:
                txn_id, target_txn, write_ids = orjson.loads(value)
            except (TypeError, ValueError) as error:
                raise StateCorrupt("an unproven commit cannot be read", key=key, reason=str(error)) from error
            self._commits[txn_id] = UnprovenCommit(txn_id, target_txn, write_ids)
        self._stored = dict(self._commits)

    def flush(self, txn: Transaction) -> None:
        """Write the changes since the last call."""
        for txn_id in self._stored.keys() - self._commits.keys():
            txn.delete(_key(txn_id))
        for txn_id, commit in self._commits.items():
            if self._stored.get(txn_id) == commit:
                continue
            txn.put(_key(txn_id), orjson.dumps([txn_id, commit.target_txn, dict(commit.write_ids)]))
        self._stored = dict(self._commits)

    def add(self, commit: UnprovenCommit) -> None:
        """Add a commit that was sent, unless it has no write ids and needs no proof."""
        if commit.write_ids:
            self._commits[commit.txn_id] = commit

    def __len__(self) -> int:
        """Return the number of commits that wait for their proof."""
        return len(self._commits)

    def commits(self) -> tuple[UnprovenCommit, ...]:
        """Return all commits that wait for their proof."""
        return tuple(self._commits.values())

    def tables(self) -> frozenset[str]:
        """Return the tables that they wrote into, without the database."""
        return frozenset(
            name.partition(".")[2] for commit in self._commits.values() for name in commit.write_ids
        )

    def clear(self) -> None:
        """Remove all commits, because they are proven."""
        self._commits.clear()


def _key(txn_id: int) -> bytes:
    return _PREFIX + txn_id.to_bytes(8, "big")
