"""Where query texts come from, and the loop that takes them to the key log.

A source yields batches. Each carries the position behind it, which is stored in the same transaction as the batch's keys: after a
crash the source goes on from what was recorded, so nothing counts twice and nothing is left out. What a source finds unreadable is
counted as dead with its reason and passed over, because one broken file must not hide all later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.errors import TidelineError
    from streaming.mining.model import QueryText


@dataclass(frozen=True, slots=True)
class DeadInput:
    """An input that cannot be read."""

    origin: str
    code: str
    """Of the error (``limit-exceeded``, ``bad-input``, …)."""
    reason: str

    @classmethod
    def of(cls, origin: str, error: TidelineError) -> DeadInput:
        """Say what ``error`` says."""
        return cls(origin, error.code, str(error)[:500])


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Some queries, and how far the source has been read with them."""

    queries: tuple[QueryText, ...]
    position: str | None
    """The source's own form; None where a source cannot be read again (standard input)."""
    dead: tuple[DeadInput, ...] = ()


class QuerySource(Protocol):
    """An adapter of one place where query texts are kept."""

    @property
    def name(self) -> str:
        """The source's name in the key log; one position each."""

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield what is there after ``position``, and end when that is all for now.

        Raises StateCorrupt for a position that is not this source's, a Transient error where the place does not answer.
        """
