"""Shares the processor between the follower of a catalog and the readers of its index.

Python runs one thread at a time and switches every few milliseconds, and the follower loses its turn with
every call of the store. So sixteen readers that filter without pause would leave it a few events per second.
Therefore readers give way while it is the follower's turn, page by page. Only a few readers run at once; the
others wait without using the processor.

A turn is longer than one batch: each change of turns costs several thread switches, which take as long as a
small batch. So the follower keeps its turn for ``KEEP_S`` after its work, in case more follows, and gives
readers their whole share at once, after ``SLICE_S`` of work.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


SLICE_S: Final = 0.1
"""How long the follower works before waiting readers run."""
READERS_SHARE: Final = 0.3
"""Time for readers, in relation to the follower's, while both have work."""
KEEP_S: Final = 0.002
"""How long the follower keeps its turn after its work."""
READERS_MAX: Final = 2
"""Readers that run at once; each may use the processor for some milliseconds until it notices that it must
give way."""
GIVE_WAY_S: Final = 1.0
"""How long a reader gives way at most: the follower may be waiting for a disk."""


class Turns:
    """Whose turn it is: the follower's thread calls ``work`` and ``breathe``, readers in other threads
    call the other methods.
    """

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(READERS_MAX)
        self._counting = threading.Lock()
        self._readers = 0
        self._no_readers = threading.Event()
        self._no_readers.set()
        self._changed = threading.Condition()
        self._turn_end_s = 0.0
        """When the follower's turn ends; infinite while it works."""
        self._began_s = 0.0
        self._unshared_s = 0.0
        """Time that the follower has worked since readers had their share."""
        self._worker = 0
        """The follower's thread."""

    @contextmanager
    def work(self) -> Iterator[None]:
        """Do the follower's work in the block, which should not wait for the network; first give readers
        their share if it is due.
        """
        idle_s = max(0.0, time.monotonic() - self._turn_end_s)
        self._unshared_s = max(0.0, self._unshared_s - idle_s / READERS_SHARE)
        if self._unshared_s >= SLICE_S:
            self._leave_to_readers()
        self._begin()
        try:
            yield
        finally:
            self._end()

    def breathe(self) -> None:
        """Within ``work``: let waiting readers run if the follower has worked for a while."""
        if self._unshared_s + time.monotonic() - self._began_s >= SLICE_S:
            self._leave_to_readers()
            self._begin()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make one answer of a reader in the block; first wait until only few other readers run."""
        self._count(1)
        try:
            with self._places:
                self.give_way()
                yield
        finally:
            self._count(-1)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in the block in parallel with the follower, and call ``give_way`` often; the follower
        leaves the block a share of the time, as it does for readers.
        """
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def give_way(self) -> None:
        """Wait while it is the follower's turn; the follower itself does not wait."""
        if self._turn_end_s <= time.monotonic() or threading.get_ident() == self._worker:
            return
        limit_s = time.monotonic() + GIVE_WAY_S
        with self._changed:
            while (left_s := min(self._turn_end_s, limit_s) - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _begin(self) -> None:
        self._worker = threading.get_ident()
        self._began_s = time.monotonic()
        self._turn_end_s = math.inf

    def _end(self) -> None:
        now_s = time.monotonic()
        self._unshared_s = min(self._unshared_s + now_s - self._began_s, SLICE_S)
        self._end_turn(now_s + KEEP_S)

    def _leave_to_readers(self) -> None:
        self._end_turn(0.0)
        self._unshared_s = 0.0
        self._no_readers.wait(READERS_SHARE * SLICE_S)

    def _end_turn(self, at_s: float) -> None:
        with self._changed:
            self._turn_end_s = at_s
            self._changed.notify_all()

    def _count(self, more: int) -> None:
        with self._counting:
            self._readers += more
            if self._readers:
                self._no_readers.clear()
            else:
                self._no_readers.set()
