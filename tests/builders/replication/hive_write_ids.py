"""Hive's allocation of write ids for replayed transactions, in memory: also what it does with wrong calls
(AllocateTableWriteIdsFunction)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from state.errors import ServerFault


@dataclass
class HiveWriteIds:
    """The write ids of one table. ``test_joined_transactions`` compares it with a real metastore."""

    next: int | None = None
    held: dict[int, int] = field(default_factory=dict)
    """Write ids by transaction of the target."""

    def allocate(
        self, pairs: Sequence[tuple[int, int]], target_txns: Mapping[int, int]
    ) -> list[tuple[int, int]]:
        """Allocate for source transactions; return write ids, each with its transaction of the target. Raises
        ServerFault, and then changes nothing."""
        targets = sorted(target_txns[txn] for txn, _ in pairs if txn in target_txns)
        if len(targets) != len(pairs):
            return []
        if all(txn in self.held for txn in targets):
            return [(txn, self.held[txn]) for txn in targets]
        first = pairs[0][1]
        if self.next is not None and self.next != first:
            self.held.clear()
        elif any(txn in self.held for txn in targets):
            raise ServerFault("duplicate key")
        given = {txn: first + offset for offset, txn in enumerate(targets)}
        self.held |= given
        self.next = first + len(targets)
        return sorted(given.items())
