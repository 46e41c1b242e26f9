"""Values of a time column that are in none of its timelines: strays, sentinels, values of a disregarded
period, and values that are not times.

They matter to a condition that selects a range of text: ``2024-01-02_backup`` lies between two days. Each
column keeps up to ``IGNORED_MAX`` distinct values. Nothing else is known about a column with more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


IGNORED_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class IgnoredValues:
    """The ignored values of one column; without texts if there are too many (not ``is_complete``)."""

    texts: frozenset[str] = frozenset()
    is_complete: bool = True

    @staticmethod
    def of(texts: Iterable[str]) -> IgnoredValues:
        """Build from distinct values; reads only as many of them as it keeps."""
        values = IgnoredValues()
        for text in texts:
            values = values.with_value(text)
            if not values.is_complete:
                break
        return values

    def with_value(self, text: str) -> IgnoredValues:
        """Return the values with one more."""
        if not self.is_complete or text in self.texts:
            return self
        if len(self.texts) == IGNORED_MAX:
            return IgnoredValues(is_complete=False)
        return IgnoredValues(self.texts | {text})

    def without_value(self, text: str) -> IgnoredValues:
        """Return the values without one; a column with too many values stays incomplete until its next
        listing.
        """
        return IgnoredValues(self.texts - {text}) if self.is_complete else self

    def may_contain(self, text: str) -> bool:
        """Whether the value is, or may be, one of them."""
        return not self.is_complete or text in self.texts
