"""What was seen of the keys' values: per batch, per hour, and folded over the retained window.

Counts are added and evidence is joined, so batches and hours may come in any order. Only the counts care about repetition; a
book therefore remembers the last batch that it was given, and a replayed batch changes nothing.

A key has its own count of rows, because live columns are counted in every row (from the files' footers) while keys that wait
for a column are looked for in a sample.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from state.columns.paths import KeyPath
from state.columns.slots import HOUR_S
from state.columns.types import NOTHING, Evidence
from state.errors import BadInput, LimitExceeded, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


DAY_S: Final = 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """One key in some rows."""

    rows: int = 0
    """Rows that were looked at."""
    nonnull: int = 0
    """Values that its column took, or that a sample held."""
    misfits: int = 0
    """Values that its column did not take: they are in ``_rescued``."""
    evidence: Evidence = NOTHING

    @property
    def values(self) -> int:
        """How many rows brought a value."""
        return self.nonnull + self.misfits

    @property
    def fill(self) -> float:
        """The share of rows that brought a value."""
        return self.values / self.rows if self.rows else 0.0

    @property
    def misfit_share(self) -> float:
        """The share of values that did not fit."""
        return self.misfits / self.values if self.values else 0.0

    def join(self, other: KeyCounts) -> KeyCounts:
        """Return both together; they are of different rows."""
        return KeyCounts(
            self.rows + other.rows,
            self.nonnull + other.nonnull,
            self.misfits + other.misfits,
            self.evidence.join(other.evidence),
        )

    def check(self) -> None:
        """Assert that no count is negative and no value without a row."""
        assert min(self.rows, self.nonnull, self.misfits) >= 0, self
        assert self.values <= self.rows, self
        self.evidence.check()


_TEXT: Final = Evidence(has_text=True)
NO_COUNTS: Final = KeyCounts()


@dataclass(frozen=True, slots=True)
class Observations:
    """What some rows held, of one hour or one batch."""

    rows: int = 0
    malformed: int = 0
    """Rows of these that are no JSON object."""
    keys: Mapping[KeyPath, KeyCounts] = field(default_factory=dict)

    def join(self, other: Observations) -> Observations:
        """Return both together; they are of different rows."""
        keys = dict(self.keys)
        for key, seen in other.keys.items():
            keys[key] = keys.get(key, NO_COUNTS).join(seen)
        return Observations(self.rows + other.rows, self.malformed + other.malformed, keys)

    def without(self, keys: Iterable[KeyPath]) -> Observations:
        """Return it without ``keys``: of a sample, those that the files' footers have counted already."""
        left_out = frozenset(keys)
        return replace(self, keys={key: seen for key, seen in self.keys.items() if key not in left_out})

    def check(self) -> None:
        """Assert that the counts can be true."""
        assert 0 <= self.malformed <= self.rows, self
        for seen in self.keys.values():
            seen.check()


@dataclass(frozen=True, slots=True)
class KeyWindow:
    """A key over the retained window."""

    total: KeyCounts
    first_hour: int
    """The first hour that brought a value (seconds since 1970); of older hours, the day."""
    last_hour: int
    misfit_share_max: float = 0.0
    """The highest share of misfits of any one hour."""

    @property
    def evidence(self) -> Evidence:
        """What its fattest type follows from."""
        return self.total.evidence


@dataclass(frozen=True, slots=True)
class HourCounts:
    """Observations by event hour: what a table's writer remembers between batches."""

    hours: Mapping[int, Observations] = field(default_factory=dict)
    """By the second at which the hour begins, or the day where hours were put together."""
    batch: int = -1
    """The last batch in it."""

    def with_batch(self, batch: int, seen: Mapping[int, Observations]) -> HourCounts:
        """Return the book with what ``batch`` saw by hour; itself if it has that batch, or a later one, already."""
        if batch <= self.batch:
            return self
        return replace(self.join(HourCounts(seen)), batch=batch)

    def join(self, other: HourCounts) -> HourCounts:
        """Return both together; they are of different rows."""
        hours = dict(self.hours)
        for hour, observations in other.hours.items():
            hours[hour] = hours.get(hour, Observations()).join(observations)
        return HourCounts(hours, max(self.batch, other.batch))

    def since(self, hour: int) -> HourCounts:
        """Return the book without what is older than ``hour``: the retained window."""
        return replace(self, hours={each: seen for each, seen in self.hours.items() if each >= hour})

    def merge_days_before(self, hour: int) -> HourCounts:
        """Return the book with the hours before ``hour`` put together by day (UTC), so that it stays small."""
        joined = HourCounts({each: seen for each, seen in self.hours.items() if each >= hour}, self.batch)
        for each, seen in self.hours.items():
            if each < hour:
                joined = joined.join(HourCounts({each - each % DAY_S: seen}))
        return joined

    def window(self) -> dict[KeyPath, KeyWindow]:
        """Return every key that has brought a value, folded over all hours.

        An object has brought one wherever a member has: people ask for members, and the object may have to be the column.
        """
        folded: dict[KeyPath, KeyWindow] = {}
        for hour, observations in sorted(self.hours.items()):
            for key, seen in observations.keys.items():
                if seen.values:
                    folded[key] = _extended(folded.get(key), hour, seen)
        for key, window in list(folded.items()):
            above = key.parent
            while above is not None:
                folded[above] = _holding(folded.get(above), window)
                above = above.parent
        return folded

    def fill_rates(self) -> dict[KeyPath, float]:
        """Return the share of rows that bring each key, as ``demand_of`` asks for it."""
        return {key: window.total.fill for key, window in self.window().items()}

    def check(self) -> None:
        """Assert whole hours and counts that can be true."""
        for hour, observations in self.hours.items():
            assert hour % HOUR_S == 0, hour
            observations.check()


def _holding(own: KeyWindow | None, member: KeyWindow) -> KeyWindow:
    total = member.total
    text = KeyCounts(total.rows, total.values, 0, _TEXT)
    if own is None:
        return KeyWindow(text, member.first_hour, member.last_hour)
    fuller = max(own.total, text, key=lambda seen: (seen.values, -seen.rows))
    return KeyWindow(
        replace(fuller, evidence=own.evidence.join(_TEXT)),
        min(own.first_hour, member.first_hour),
        max(own.last_hour, member.last_hour),
        own.misfit_share_max,
    )


def _extended(window: KeyWindow | None, hour: int, seen: KeyCounts) -> KeyWindow:
    if window is None:
        return KeyWindow(seen, hour, hour, seen.misfit_share)
    return KeyWindow(
        window.total.join(seen),
        min(window.first_hour, hour),
        max(window.last_hour, hour),
        max(window.misfit_share_max, seen.misfit_share),
    )


FORMAT: Final = 1
BOOK_CHARS_MAX: Final = 256 << 20
_HAS_FLOATS: Final = 1
_HAS_BOOLEANS: Final = 2
_HAS_TEXT: Final = 4


def hour_counts_to_json(book: HourCounts) -> str:
    """Return the text of ``book``; equal books have equal texts."""
    keys = sorted({key for observations in book.hours.values() for key in observations.keys})
    numbers = {key: number for number, key in enumerate(keys)}
    hours = {str(hour): _hour_form(seen, numbers) for hour, seen in sorted(book.hours.items())}
    form = {"v": FORMAT, "batch": book.batch, "keys": [key.text for key in keys], "hours": hours}
    return json.dumps(form, separators=(",", ":"))


def hour_counts_from_json(text: str) -> HourCounts:
    """Read ``hour_counts_to_json``; raise LimitExceeded beyond 256 Mi characters, StateCorrupt where it is none."""
    if len(text) > BOOK_CHARS_MAX:
        raise LimitExceeded("a book of observations is too long", chars=len(text), limit=BOOK_CHARS_MAX)
    try:
        form = json.loads(text)
        if form["v"] != FORMAT:
            raise StateCorrupt("a book of observations is of another version", version=form["v"])
        keys = dict(enumerate(map(KeyPath.of_json_path, form["keys"])))
        hours = {int(hour): _hour(each, keys) for hour, each in form["hours"].items()}
        book = HourCounts(hours, _count(form["batch"]))
        book.check()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as broken:
        raise _corrupt(broken) from None
    except (AssertionError, BadInput) as broken:
        raise _corrupt(broken) from None
    return book


def _hour_form(observations: Observations, numbers: Mapping[KeyPath, int]) -> list[Any]:
    keys = [_key_form(numbers[key], seen) for key, seen in sorted(observations.keys.items())]
    return [observations.rows, observations.malformed, keys]


def _key_form(number: int, seen: KeyCounts) -> list[int | None]:
    evidence = seen.evidence
    flags = (
        _HAS_FLOATS * evidence.has_floats
        | _HAS_BOOLEANS * evidence.has_booleans
        | _HAS_TEXT * evidence.has_text
    )
    return [number, seen.rows, seen.nonnull, seen.misfits, evidence.least, evidence.most, flags]


def _hour(form: Sequence[Any], keys: Mapping[int, KeyPath]) -> Observations:
    rows, malformed, seen = form
    return Observations(_count(rows), _count(malformed), {keys[_count(each[0])]: _key(each) for each in seen})


def _key(form: Sequence[Any]) -> KeyCounts:
    _, rows, nonnull, misfits, least, most, flags = form
    evidence = Evidence(
        None if least is None else _count(least),
        None if most is None else _count(most),
        bool(_count(flags) & _HAS_FLOATS),
        bool(flags & _HAS_BOOLEANS),
        bool(flags & _HAS_TEXT),
    )
    return KeyCounts(_count(rows), _count(nonnull), _count(misfits), evidence)


def _count(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r:.40} is no whole number")
    return value


def _corrupt(broken: Exception) -> StateCorrupt:
    return StateCorrupt("a book of observations cannot be read", reason=str(broken)[:200])
