"""Tables by name that one thread changes while others read them.

Copying a dictionary for each change would need no lock. But with 100,000 tables a copy takes a millisecond,
which adds up to minutes while they are loaded, and sorting the names takes 60 ms for each page of a list.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from sortedcontainers import SortedList


V = TypeVar("V")


class SharedTables(Generic[V]):
    """Values of tables by name. Iterating, ``names`` and ``items`` are in order of names, and show one
    moment.
    """

    def __init__(self, tables: Mapping[str, V] | None = None) -> None:
        self._values = dict(tables or {})
        self._names = SortedList(self._values)
        self._lock = threading.Lock()

    def change(self, changes: Mapping[str, V | None]) -> None:
        """Put the values of some tables; None removes a table."""
        with self._lock:
            for name, value in changes.items():
                if value is None:
                    if self._values.pop(name, None) is not None:
                        self._names.remove(name)
                else:
                    if name not in self._values:
                        self._names.add(name)
                    self._values[name] = value

    def get(self, name: str) -> V | None:
        """Return the value of a table, or None."""
        return self._values.get(name)

    def names(self) -> list[str]:
        """Return all names."""
        with self._lock:
            return list(self._names)

    def items(self) -> list[tuple[str, V]]:
        """Return all names with their values."""
        with self._lock:
            return [(name, self._values[name]) for name in self._names]

    def __getitem__(self, name: str) -> V:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._values)
