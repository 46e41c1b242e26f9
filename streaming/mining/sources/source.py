"""The protocol of query sources.

A source yields batches. Each batch carries the position after it, stored in the same transaction as the
batch's keys. After a crash the source continues from the recorded position, so it counts nothing twice and
omits nothing. It skips an unreadable input and counts it as dead, with the reason, because one broken file
must not block all later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from state.errors import TidelineError
from streaming.mining.model import QueryText


@dataclass(frozen=True, slots=True)
class DeadInput:
    """An unreadable input."""

    origin: str
    code: str
    """The code of the error, such as ``limit-exceeded`` or ``bad-input``."""
    reason: str

    @classmethod
    def of(cls, origin: str, error: TidelineError) -> DeadInput:
        """Describe an input that raised ``error``."""
        return cls(origin, error.code, str(error)[:500])


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Some queries, and the position of the source after them."""

    queries: tuple[QueryText, ...]
    position: str | None
    """In the source's own form; None if the source cannot be read again (standard input)."""
    dead: tuple[DeadInput, ...] = ()


class QuerySource(Protocol):
    """An adapter for one kind of storage of query texts."""

    @property
    def name(self) -> str:
        """The source's name in the key log, which stores one position for each name."""

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the records after ``position``, then end.

        Raises StateCorrupt for a position of another kind of source, and a Transient error if the storage
        does not answer.
        """
