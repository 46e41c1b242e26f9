"""A key as people asked for it: who, on how many days, how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.columns.paths import KeyPath


@dataclass(frozen=True, slots=True)
class Asked:
    """A key in the questions of the last days; the default has no question, as a whitelisted key may have none."""

    key: KeyPath
    users: frozenset[str] = frozenset()
    days: int = 0
    """Distinct days with a question."""
    count: int = 0
    first_s: int = 0
    """The first and the last question, in seconds since 1970."""
    last_s: int = 0


def together(key: KeyPath, group: Sequence[Asked]) -> Asked:
    """Return the questions of ``group`` as questions for ``key``; the days are at least those of the one with most."""
    return Asked(
        key,
        frozenset().union(*(each.users for each in group)),
        max(each.days for each in group),
        sum(each.count for each in group),
        min(each.first_s for each in group),
        max(each.last_s for each in group),
    )
