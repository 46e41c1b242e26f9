"""Shares the processor between the follower of a catalog and the readers of its index.

Python runs one thread at a time and hands over every 5 ms, and the follower gives up its turn with every call of the store. So sixteen
readers that filter without pause would leave it a few events per second. Therefore readers give way while the follower works, page by
page, and the follower leaves them a fixed share of the time, but at least every ``SLICE_S``. Only a few readers run at once; the
others wait without using the processor.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator


SLICE_S: Final = 0.4
"""How long the follower works before waiting readers run."""
READERS_SHARE: Final = 0.3
"""Time for readers, in relation to the follower's, while both have work."""
READERS_MAX: Final = 2
"""Readers that run at once; each may use the processor for some milliseconds until it notices that it must give way."""
GIVE_WAY_S: Final = 1.0
"""How long a reader gives way at most: the follower may be waiting for a disk."""


class Turns:
    """Whose turn it is: the follower's thread calls ``work`` and ``breathe``, readers in other threads the rest."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(READERS_MAX)
        self._may_read = threading.Event()
        self._may_read.set()
        self._counting = threading.Lock()
        self._readers = 0
        self._no_readers = threading.Event()
        self._no_readers.set()
        self._began_s = self._ended_s = time.monotonic()
        self._owed_s = 0.0
        self._worker = 0
        """The follower's thread."""

    @contextmanager
    def work(self) -> Iterator[None]:
        """The follower's work, which should not wait for the network; first leaves readers the rest of their share."""
        self._leave_to_readers(self._owed_s - (time.monotonic() - self._ended_s))
        self._begin()
        try:
            yield
        finally:
            self._ended_s = time.monotonic()
            self._owed_s = READERS_SHARE * min(self._ended_s - self._began_s, SLICE_S)
            self._may_read.set()

    def breathe(self) -> None:
        """Within ``work``: let waiting readers run where the follower has worked for a while."""
        worked_s = time.monotonic() - self._began_s
        if worked_s >= SLICE_S:
            self._may_read.set()
            self._leave_to_readers(READERS_SHARE * SLICE_S)
            self._begin()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One answer of a reader; waits until few others run."""
        self._count(1)
        try:
            with self._places:
                self.give_way()
                yield
        finally:
            self._count(-1)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """A computation beside the follower that calls ``give_way`` often; the follower leaves it a share of the time, as readers."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def give_way(self) -> None:
        """Wait while it is the follower's turn; the follower itself does not wait."""
        if not self._may_read.is_set() and threading.get_ident() != self._worker:
            self._may_read.wait(GIVE_WAY_S)

    def _begin(self) -> None:
        self._began_s = time.monotonic()
        self._worker = threading.get_ident()
        self._may_read.clear()

    def _leave_to_readers(self, seconds: float) -> None:
        if seconds > 0:
            self._no_readers.wait(seconds)

    def _count(self, more: int) -> None:
        with self._counting:
            self._readers += more
            if self._readers:
                self._no_readers.clear()
            else:
                self._no_readers.set()
