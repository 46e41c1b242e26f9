"""Wakes a resting loop when a request arrives in its inbox (``inbox``).

Hundreds of loops without work would otherwise list hundreds of directories all the time. Instead, one thread
reads the modification time of a directory, which is a single system call: twice a second that of the inboxes'
parent, which every client touches after its request (``inbox.send_request``), and after a change that of each
inbox. It also notices the request of a client that was killed in between, within ``LOOK_S * LOOKS``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from daemon.process.loops.heartbeat import Heartbeat


LOOK_S: Final = 0.5
LOOKS: Final = 60
"""The number of looks at the parent directories between two looks at each inbox."""
_COARSE_NS: Final = 1_000_000_000
"""Two changes within this time may have the same time in some file systems."""


class InboxWatch:
    """Watches the inboxes of a group of loops. ``add`` is thread-safe."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._wakes: dict[str, Callable[[], None]] = {}
        """The functions by path, as text, because hundreds are looked up twice a second."""
        self._parents: set[str] = set()
        self._changed_ns: dict[str, int] = {}
        self._looks = 0

    def add(self, directory: Path, wake: Callable[[], None]) -> None:
        """Call ``wake`` when something changes in ``directory``, which need not exist yet."""
        self._wakes[str(directory)] = wake
        self._parents = {*self._parents, str(directory.parent)}

    def run(self, heartbeat: Heartbeat) -> None:
        """Watch until a stop request."""
        heartbeat.following()
        while not heartbeat.stopping.wait(LOOK_S):
            self.look()
            heartbeat.beat()

    def look(self) -> None:
        """Wake the loops whose inbox has changed."""
        now_ns = self._clock_ns()
        looks_at_all = self._looks % LOOKS == 0
        self._looks += 1
        if not any(self._has_changed(parent, now_ns) for parent in self._parents) and not looks_at_all:
            return
        for directory, wake in list(self._wakes.items()):
            if self._has_changed(directory, now_ns):
                wake()

    def _has_changed(self, directory: str, now_ns: int) -> bool:
        try:
            changed_ns = os.stat(directory).st_mtime_ns  # noqa: PTH116
        except OSError:  # the loop reports it
            return False
        has_changed = changed_ns != self._changed_ns.get(directory)
        self._changed_ns[directory] = changed_ns
        return has_changed or now_ns - changed_ns < _COARSE_NS
