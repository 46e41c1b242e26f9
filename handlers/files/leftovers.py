"""Unfinished files of processes that were killed: hidden, harmless, and removed when somebody next writes beside them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from handlers.files.filesystems import FileSystems, is_leftover
from state.errors import NotFound


if TYPE_CHECKING:
    from handlers.files.paths import Location


DIRECTORIES_MAX: Final = 4096


def sweep(file_systems: FileSystems, directory: Location) -> int:
    """Remove what dead processes left in ``directory`` and return how many files that were; an absent one has none."""
    files = file_systems.of(directory)
    try:
        leftovers = [entry.name for entry in files.list(directory) if is_leftover(entry.name)]
    except NotFound:
        return 0
    for name in leftovers:
        files.remove(directory.child(name))
    return len(leftovers)


class SweptDirectories:
    """The directories that this process has written to lately; those that it forgot are swept once more."""

    def __init__(self) -> None:
        self._known: OrderedDict[Location, None] = OrderedDict()
        self._lock = threading.Lock()

    def first_use(self, directory: Location) -> bool:
        """Whether ``directory`` is new here; from then on it is known."""
        with self._lock:
            if directory in self._known:
                return False
            self._known[directory] = None
            if len(self._known) > DIRECTORIES_MAX:
                self._known.popitem(last=False)
            return True
