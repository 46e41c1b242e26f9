"""Content under numbers: a table keeps its number when renamed, and removing a table only marks its number.

The last number drawn and the discarded numbers are entries of the store; all other keys of a number begin
with one of ``groups`` and the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from state.store import Transaction, prefix_end


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one kind of content."""

    last: bytes
    """Key of the last number drawn."""
    discarded: bytes
    """Prefix of the discarded numbers."""
    groups: tuple[bytes, ...]

    def draw(self, txn: Transaction) -> int:
        """Return an unused number."""
        number = int.from_bytes(txn.get(self.last) or b"") + 1
        txn.put(self.last, number.to_bytes(8))
        return number

    def discard(self, txn: Transaction, number: int) -> None:
        """Mark a number, so that ``sweep`` removes the content under it; the cost does not depend on the
        content's size.
        """
        txn.put(self.discarded + number.to_bytes(8), b"")

    def sweep(self, txn: Transaction, limit: int) -> bool:
        """Remove at most ``limit`` discarded keys; return whether there was anything to do."""
        discarded = next(iter(txn.scan_keys(self.discarded, prefix_end(self.discarded))), None)
        if discarded is None:
            return False
        for group in self.groups:
            start = group + discarded[len(self.discarded) :]
            keys = list(islice(txn.scan_keys(start, prefix_end(start)), limit))
            if keys:
                txn.delete_range(start, keys[-1] + b"\x00")
                return True
        txn.delete(discarded)
        return True
