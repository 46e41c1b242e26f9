"""The pause of a policy: an operator stops replication for a while, and a restart of the daemon does not
resume it.

The pause is in the policy's state file, and among the parameters that the target database keeps
(``kept_entries``): a daemon that takes over the policy without this file does not resume it either. The
reason of the pause is in the state file only.
"""

from __future__ import annotations

import time
from typing import Final

from state.store import Reader, Store, Transaction


PAUSED_KEY: Final = b"paused-since"
REASON_KEY: Final = b"pause-reason"
REASON_CHARACTERS_MAX: Final = 200


def find_pause_s(reader: Reader) -> int | None:
    """Return the Unix time of the pause; None if there is none."""
    stored = reader.get(PAUSED_KEY)
    return None if stored is None else int(stored)


def put_pause(since_s: int | None, txn: Transaction) -> None:
    """Store the pause, or remove it."""
    if since_s is None:
        txn.delete(PAUSED_KEY)
        txn.delete(REASON_KEY)
    else:
        txn.put(PAUSED_KEY, str(since_s).encode())


class Pause:
    """The pause of one policy. Used by replay's thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def since_s(self) -> int | None:
        """Return the Unix time of the pause; None if there is none."""
        return find_pause_s(self._store)

    def reason(self) -> str:
        """Return why the policy is paused; empty if no one said it."""
        return (self._store.get(REASON_KEY) or b"").decode()

    def begin(self, reason: str = "") -> int:
        """Pause the policy, or give the pause another reason; return since when it pauses."""
        since_s = self.since_s()
        if since_s is None or reason:
            since_s = since_s or int(time.time())
            with self._store.transaction() as txn:
                put_pause(since_s, txn)
                txn.put(REASON_KEY, reason.encode())
        return since_s

    def end(self) -> bool:
        """Resume the policy; return whether it was paused."""
        was_paused = self.since_s() is not None
        with self._store.transaction() as txn:
            put_pause(None, txn)
        return was_paused
