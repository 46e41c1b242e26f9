"""Servers as context managers: started when the block begins, and stopped at its end, even after an error."""

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
