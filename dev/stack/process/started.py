"""Servers as context managers: they start when the block begins, and stop at its end, even after an error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """A context around ``start`` and ``stop``."""

    @abstractmethod
    def start(self) -> None:
        """Start all processes; if one does not start, leave none running."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all processes that run."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
