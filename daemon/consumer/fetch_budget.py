"""One budget of memory for the fetched records of all readers of the process.

Near the head, the projections of a source read together, and a daemon has few readers. After an outage, or
with many projections that are behind, each reads on its own. A limit for each would then add up: a hundred
readers with 32 MiB each are 3.2 GiB. So the readers share one budget in equal parts, and a reader that joins
reduces the parts of the others. A reader that holds more than its part fetches nothing until it has less.
"""

from __future__ import annotations

import threading
from typing import Final


BYTES_MAX: Final = 64 * 1024 * 1024
"""The budget of all readers together."""
SHARE_BYTES_MIN: Final = 256 * 1024
"""The smallest share: a reader with less would fetch single records. More than 256 readers at once exceed the
budget.
"""


class FetchBudget:
    """The budget of a process. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._readers: set[object] = set()
        self._lock = threading.Lock()

    def join(self, reader: object) -> None:
        """Add a reader."""
        with self._lock:
            self._readers.add(reader)

    def leave(self, reader: object) -> None:
        """Remove a reader."""
        with self._lock:
            self._readers.discard(reader)

    def share(self, limit: int) -> int:
        """Return how many bytes a reader may hold, at most its own ``limit``."""
        share = self._bytes_max // max(1, len(self._readers))
        return min(limit, max(SHARE_BYTES_MIN, share))


BUDGET: Final = FetchBudget(BYTES_MAX)
