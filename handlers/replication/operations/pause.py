"""Whether a policy is paused. The state file remembers it, so that a restart of the daemon does not resume the policy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Callable

    from state.store import Store


PAUSED_KEY: Final = b"paused-since"


class Pause:
    """The pause of one policy, in its state file. Used by replay's thread."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def since_s(self) -> int | None:
        """Return the Unix time since which the policy is paused; None if it is not."""
        stored = self._store.get(PAUSED_KEY)
        return None if stored is None else int(stored)

    def begin(self) -> int:
        """Pause the policy; return since when it is paused."""
        since_s = self.since_s()
        if since_s is None:
            since_s = int(self._clock())
            with self._store.transaction() as txn:
                txn.put(PAUSED_KEY, str(since_s).encode())
        return since_s

    def end(self) -> None:
        """Resume the policy."""
        with self._store.transaction() as txn:
            txn.delete(PAUSED_KEY)
