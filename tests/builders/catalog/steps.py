"""Work in steps, done to its end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar


T = TypeVar("T")


def finish(steps: Generator[None, None, T]) -> T:
    """Take all steps and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result
