"""Requests that take longer than one turn of a loop: they are done in steps, and served again until they are finished.

The loop that serves a request also applies events, so no request may keep it for longer than about ``STEP_S``.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable, Generator


STEP_S: Final = 0.1
BEGUN_MAX: Final = 8
"""Works kept at once; a caller may have given up one."""
T = TypeVar("T")


class StillWorking(Exception):  # noqa: N818 - not an error: the request is served again
    """Raised where a request is not finished; serving it again continues it."""


class SteppedWork:
    """Work that was begun for requests, by what it is about; for one thread."""

    def __init__(self) -> None:
        self._begun: dict[str, Generator[None, None, Any]] = {}

    def advance(self, key: str, begin: Callable[[], Generator[None, None, T]]) -> T:
        """Continue the work for ``STEP_S``, beginning it if necessary; return its result, or raise StillWorking."""
        work = self._begun.pop(key, None) or begin()
        end_s = time.monotonic() + STEP_S
        try:
            while time.monotonic() < end_s:
                next(work)
        except StopIteration as finished:
            result: T = finished.value
            return result
        self._begun[key] = work
        while len(self._begun) > BEGUN_MAX:
            self._begun.pop(next(iter(self._begun)))
        raise StillWorking
