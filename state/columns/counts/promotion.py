"""The reasons to make a column STRING: the misfits by kind, and the hour of the announcement.

Misfits are values that did not fit a column's type. A total is not evidence. An integer that outgrew its
column fits after the column is widened in place, and says nothing about text. The kinds are therefore counted
separately, and a promotion to STRING counts only values that no widening in place can hold. Counts of hours
before a widening need no correction: those values fit the wider type and no longer count.

An announcement precedes the promotion by some hours: enough for a user to pin the key to its type instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from state.columns.types import DOUBLE_EXACT_MAX, ColumnType, Evidence


ANNOUNCED_MAX: Final = 150
"""Announcements at the same time; their text fits into a table parameter. Further promotions wait for their
announcement."""


@dataclass(frozen=True, slots=True)
class MisfitCounts:
    """Numbers of values that did not fit, by kind."""

    integers: int = 0
    """Integers that DOUBLE represents exactly (2^53)."""
    wide_integers: int = 0
    """Other integers of 64 bits."""
    fractions: int = 0
    others: int = 0
    """Values that no numeric type holds: text, objects, arrays, true and false, integers beyond 64 bits."""

    @classmethod
    def of_value(cls, evidence: Evidence, count: int = 1) -> MisfitCounts:
        """Return the counts of ``count`` values, all of the kind that ``evidence`` of one value shows."""
        if evidence.has_text or evidence.has_booleans or not evidence.is_within_64_bits:
            return cls(others=count)
        if evidence.has_floats:
            return cls(fractions=count)
        bounds = (evidence.least or 0, evidence.most or 0)
        is_exact = all(abs(bound) <= DOUBLE_EXACT_MAX for bound in bounds)
        return cls(integers=count) if is_exact else cls(wide_integers=count)

    @property
    def total(self) -> int:
        """The number of values of all kinds."""
        return self.integers + self.wide_integers + self.fractions + self.others

    def join(self, other: MisfitCounts) -> MisfitCounts:
        """Return the sum of both counts, which must be of different rows."""
        return MisfitCounts(
            self.integers + other.integers,
            self.wide_integers + other.wide_integers,
            self.fractions + other.fractions,
            self.others + other.others,
        )

    def limit(self, count: int) -> MisfitCounts:
        """Return at most ``count`` of these values, preferring those that are the weakest evidence for
        STRING.
        """
        limited = []
        for each in self.to_list():
            limited.append(min(each, count))
            count -= limited[-1]
        return MisfitCounts(*limited)

    def beyond(self, column_type: ColumnType) -> MisfitCounts:
        """Return the values that a column of this type, or of a wider integer type, cannot hold."""
        if column_type is ColumnType.STRING:
            return NO_MISFITS
        if column_type is ColumnType.BOOLEAN:
            return self
        if column_type is ColumnType.DOUBLE:
            return MisfitCounts(wide_integers=self.wide_integers, others=self.others)
        return MisfitCounts(fractions=self.fractions, others=self.others)

    def describe(self) -> str:
        """Return the kinds with a value as text, such as ``3 fractions and 20 not numeric``."""
        integers = self.integers + self.wide_integers
        parts = [f"{integers:,} integers"] * (integers > 0) + [f"{self.fractions:,} fractions"] * (
            self.fractions > 0
        )
        return " and ".join(parts + [f"{self.others:,} not numeric"] * (self.others > 0))

    def to_list(self) -> Sequence[int]:
        """Return the counts in the order of the fields."""
        return list(astuple(self))

    def check(self) -> None:
        """Assert that no count is negative."""
        assert min(self.to_list()) >= 0, self


NO_MISFITS: Final = MisfitCounts()


def announce(announced: Mapping[int, int], proposed: Collection[int], now_s: int) -> dict[int, int]:
    """Return the start (seconds since 1970) of the announcement of each proposed slot, given the earlier
    announcements.
    """
    still_proposed = {slot: min(announced[slot], now_s) for slot in sorted(proposed) if slot in announced}
    new = [slot for slot in sorted(proposed) if slot not in announced]
    return (
        (still_proposed | dict.fromkeys(new[: max(0, ANNOUNCED_MAX - len(still_proposed))], now_s))
        if new
        else still_proposed
    )


def find_due(announced: Mapping[int, int], delay_hours: int, now_s: int) -> frozenset[int]:
    """Return the slots whose promotion may begin."""
    return frozenset(slot for slot, since_s in announced.items() if now_s - since_s >= delay_hours * 3_600)


def encode_announced(announced: Mapping[int, int]) -> str | None:
    """Return the announcements as text; None if there are none."""
    return json.dumps({str(slot): announced[slot] for slot in sorted(announced)}) if announced else None


def parse_announced(text: str | None) -> dict[int, int]:
    """Read the output of ``encode_announced``. Any other text counts as no announcement; the only effect
    is that the delay starts again.
    """
    try:
        form: Any = json.loads(text or "{}")
        announced = {int(slot): since_s for slot, since_s in form.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}
    return announced if all(type(each) is int for each in announced.values()) else {}
