"""Servers that are used as a context: started at its beginning, and stopped at its end, however it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """A context around ``start`` and ``stop``."""

    @abstractmethod
    def start(self) -> None:
        """Start everything, or nothing: a start that fails leaves no process."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all processes that run."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
