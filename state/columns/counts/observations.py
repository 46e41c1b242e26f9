"""Observations of the keys' values: for a batch, by hour, and combined over the retained window.

Counts add up, and evidence is joined, in any order of batches and hours. Counting a batch twice would falsify
the counts; ``HourCounts`` therefore remembers its last batch, and a replayed batch changes nothing.

Each key has its own row count: every row counts for live columns (from the file footers), but only a sample
for keys that wait for a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from state.columns.counts.promotion import NO_MISFITS, MisfitCounts
from state.columns.paths import KeyPath
from state.columns.slots import HOUR_S
from state.columns.types import NOTHING, ColumnType, Evidence


DAY_S: Final = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Counts for one key over some rows."""

    rows: int = 0
    """Examined rows."""
    nonnull: int = 0
    """Values that are in the key's column, or that a sample contained."""
    misfits: int = 0
    """Values that did not fit the column's type and are in ``_rescued``."""
    evidence: Evidence = NOTHING
    kinds: MisfitCounts = NO_MISFITS
    """The misfits by kind. Observations of older versions do not contain it; their misfits are of unknown
    kind."""

    @property
    def values(self) -> int:
        """The number of rows with a value."""
        return self.nonnull + self.misfits

    @property
    def fill_rate(self) -> float:
        """The share of rows with a value."""
        return self.values / self.rows if self.rows else 0.0

    def join(self, other: KeyCounts) -> KeyCounts:
        """Return the counts of both, which must be of different rows."""
        return KeyCounts(
            self.rows + other.rows,
            self.nonnull + other.nonnull,
            self.misfits + other.misfits,
            self.evidence.join(other.evidence),
            self.kinds.join(other.kinds),
        )

    def check(self) -> None:
        """Assert that no count is negative and that there are no more values than rows."""
        assert min(self.rows, self.nonnull, self.misfits) >= 0, self
        assert self.values <= self.rows, self
        self.kinds.check()
        assert self.kinds.total <= self.misfits, self
        self.evidence.check()


_TEXT: Final = Evidence(has_text=True)
NO_COUNTS: Final = KeyCounts()


@dataclass(frozen=True, slots=True)
class Observations:
    """Counts for all keys over the rows of one hour or one batch."""

    rows: int = 0
    malformed: int = 0
    """Number of these rows that are not a JSON object."""
    keys: Mapping[KeyPath, KeyCounts] = field(default_factory=dict)
    trailing: int = 0
    """Number of these rows with more text behind their first document."""

    def join(self, other: Observations) -> Observations:
        """Return the observations of both, which must be of different rows."""
        keys = dict(self.keys)
        for key, counts in other.keys.items():
            keys[key] = keys.get(key, NO_COUNTS).join(counts)
        return Observations(
            self.rows + other.rows, self.malformed + other.malformed, keys, self.trailing + other.trailing
        )

    def without(self, keys: Iterable[KeyPath]) -> Observations:
        """Return the observations without ``keys``:
        the keys of a sample that the file footers count already.
        """
        left_out = frozenset(keys)
        return replace(self, keys={key: counts for key, counts in self.keys.items() if key not in left_out})

    def check(self) -> None:
        """Assert that the counts are possible."""
        assert 0 <= self.malformed <= self.rows, self
        assert 0 <= self.trailing <= self.rows, self
        for counts in self.keys.values():
            counts.check()


@dataclass(frozen=True, slots=True)
class KeyWindow:
    """A key over the retained window."""

    total: KeyCounts
    first_hour: int
    """The first hour with a value (seconds since 1970), or the day if it is among the merged hours."""
    last_hour: int
    misfit_hours: tuple[tuple[int, MisfitCounts], ...] = ()
    """The hours with misfits of a known kind, in order; merged hours are one."""
    uncounted: MisfitCounts = NO_MISFITS
    """For each kind, all values of the hours that contain an unknown number of values of this kind."""
    rows_of_other_hours: int = 0
    """The rows of hours in which the key was looked for and has no value."""

    @property
    def fill_rate(self) -> float:
        """The share of all rows that have a value; ``total.fill_rate`` leaves out the hours without a
        value.
        """
        rows = self.total.rows + self.rows_of_other_hours
        return self.total.values / rows if rows else 0.0

    @property
    def kinds_max(self) -> MisfitCounts:
        """The number of values of each kind except integers; if unknown, the greatest possible number."""
        return replace(self.total.kinds.join(self.uncounted), integers=0)

    @property
    def evidence(self) -> Evidence:
        """The evidence of all hours."""
        return self.total.evidence

    def misfits_beyond(self, column_type: ColumnType) -> tuple[MisfitCounts, tuple[int, ...]]:
        """Return the values that a column of this type cannot hold,
        and the hours that contain them, in order.
        """
        misfits, hours = NO_MISFITS, []
        for hour, kinds in self.misfit_hours:
            beyond = kinds.beyond(column_type)
            if beyond.total:
                hours.append(hour)
                misfits = misfits.join(beyond)
        return misfits, tuple(hours)


@dataclass(frozen=True, slots=True)
class HourCounts:
    """Observations by event hour, which a table's writer keeps between batches."""

    hours: Mapping[int, Observations] = field(default_factory=dict)
    """Key: the second at which the hour begins, or the day of merged hours."""
    batch: int = -1
    """The last included batch."""

    def with_batch(self, batch: int, observed: Mapping[int, Observations]) -> HourCounts:
        """Return the counts with those of ``batch`` added, unchanged if they already include that batch or a
        later one.
        """
        if batch <= self.batch:
            return self
        return replace(self.join(HourCounts(observed)), batch=batch)

    def join(self, other: HourCounts) -> HourCounts:
        """Return the counts of both, which must be of different rows."""
        hours = dict(self.hours)
        for hour, observations in other.hours.items():
            hours[hour] = hours.get(hour, Observations()).join(observations)
        return HourCounts(hours, max(self.batch, other.batch))

    def without_misfits(self, key: KeyPath) -> HourCounts:
        """Return the counts with the misfits of ``key`` counted as values:
        all of them fit the column's type by now.
        """
        hours = dict(self.hours)
        for hour, observations in self.hours.items():
            counts = observations.keys.get(key)
            if counts is not None:
                fitting = KeyCounts(counts.rows, counts.values, 0, replace(counts.evidence, has_text=False))
                hours[hour] = replace(observations, keys={**observations.keys, key: fitting})
        return replace(self, hours=hours)

    def since(self, hour: int) -> HourCounts:
        """Return the counts without the hours before ``hour``: the retained window."""
        return replace(
            self, hours={each: observations for each, observations in self.hours.items() if each >= hour}
        )

    def merge_days_before(self, hour: int) -> HourCounts:
        """Return the counts with the hours before ``hour`` merged by day (UTC), which keeps them small."""
        joined = HourCounts(
            {each: observations for each, observations in self.hours.items() if each >= hour}, self.batch
        )
        for each, observations in self.hours.items():
            if each < hour:
                joined = joined.join(HourCounts({each - each % DAY_S: observations}))
        return joined

    def window(self) -> dict[KeyPath, KeyWindow]:
        """Return every key that has a value, combined over all hours.

        An object counts as having a value wherever one of its members has one: queries request the members,
        and the object may become the column.
        """
        folded: dict[KeyPath, KeyWindow] = {}
        rows_without: Counter[KeyPath] = Counter()
        for hour, observations in sorted(self.hours.items()):
            for key, counts in observations.keys.items():
                if counts.values:
                    folded[key] = _add_hour(folded.get(key), hour, counts)
                else:
                    rows_without[key] += counts.rows
        for key, window in folded.items():
            folded[key] = replace(window, rows_of_other_hours=rows_without[key])
        for key, window in list(folded.items()):
            above = key.parent
            while above is not None:
                folded[above] = _add_member(folded.get(above), window)
                above = above.parent
        return folded

    def check(self) -> None:
        """Assert that the hours are whole hours and the counts are possible."""
        for hour, observations in self.hours.items():
            assert hour % HOUR_S == 0, hour
            observations.check()


def _add_member(own: KeyWindow | None, member: KeyWindow) -> KeyWindow:
    total = member.total
    text = KeyCounts(total.rows, total.values, 0, _TEXT)
    if own is None:
        others = MisfitCounts(others=text.values)
        return KeyWindow(text, member.first_hour, member.last_hour, uncounted=others)
    fuller = max(own.total, text, key=lambda counts: (counts.values, -counts.rows))
    return KeyWindow(
        replace(fuller, evidence=own.evidence.join(_TEXT)),
        min(own.first_hour, member.first_hour),
        max(own.last_hour, member.last_hour),
        own.misfit_hours,
        replace(own.uncounted, others=fuller.values),
        own.rows_of_other_hours,
    )


def _add_hour(window: KeyWindow | None, hour: int, counts: KeyCounts) -> KeyWindow:
    misfits = ((hour, counts.kinds),) if counts.kinds.total else ()
    uncounted = _find_uncounted(counts)
    if window is None:
        return KeyWindow(counts, hour, hour, misfits, uncounted)
    return KeyWindow(
        window.total.join(counts),
        min(window.first_hour, hour),
        max(window.last_hour, hour),
        window.misfit_hours + misfits,
        window.uncounted.join(uncounted),
    )


def _find_uncounted(counts: KeyCounts) -> MisfitCounts:
    """Return the number of an hour's values for each kind that its evidence contains but its counts do
    not.
    """
    evidence, kinds, values = counts.evidence, counts.kinds, counts.nonnull
    has_others = evidence.has_text or evidence.has_booleans or not evidence.is_within_64_bits
    return MisfitCounts(
        wide_integers=values if not evidence.is_exact_as_double and not kinds.wide_integers else 0,
        fractions=values if evidence.has_floats and not kinds.fractions else 0,
        others=values if has_others and not kinds.others else 0,
    )
