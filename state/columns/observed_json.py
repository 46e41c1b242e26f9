"""A book of observations as JSON text: what a writer keeps beside its checkpoint, and for a single batch beside that batch's plan.

Keys are written once and counted by number, so that a month of 300 columns stays at a few megabytes. Reading has limits, and
anything that this module would not have written raises StateCorrupt: counts that lie would free slots that hold values.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from state.columns.observations import HourBook, KeySeen, Observations
from state.columns.paths import KeyPath
from state.columns.types import Evidence
from state.errors import BadInput, LimitExceeded, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


FORMAT: Final = 1
BOOK_CHARS_MAX: Final = 256 << 20
_HAS_FLOATS: Final = 1
_HAS_BOOLEANS: Final = 2
_HAS_TEXT: Final = 4


def book_text(book: HourBook) -> str:
    """Return the text of ``book``; equal books have equal texts."""
    keys = sorted({key for observations in book.hours.values() for key in observations.keys})
    numbers = {key: number for number, key in enumerate(keys)}
    hours = {str(hour): _hour_form(seen, numbers) for hour, seen in sorted(book.hours.items())}
    form = {"v": FORMAT, "batch": book.batch, "keys": [key.text for key in keys], "hours": hours}
    return json.dumps(form, separators=(",", ":"))


def book_of_text(text: str) -> HourBook:
    """Read ``book_text``; raise LimitExceeded beyond 256 Mi characters, StateCorrupt where it is none."""
    if len(text) > BOOK_CHARS_MAX:
        raise LimitExceeded("a book of observations is too long", chars=len(text), limit=BOOK_CHARS_MAX)
    try:
        form = json.loads(text)
        if form["v"] != FORMAT:
            raise StateCorrupt("a book of observations is of another version", version=form["v"])
        keys = dict(enumerate(map(KeyPath.of_json_path, form["keys"])))
        hours = {int(hour): _hour(each, keys) for hour, each in form["hours"].items()}
        book = HourBook(hours, _count(form["batch"]))
        book.check()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as broken:
        raise _corrupt(broken) from None
    except (AssertionError, BadInput) as broken:
        raise _corrupt(broken) from None
    return book


def _hour_form(observations: Observations, numbers: Mapping[KeyPath, int]) -> list[Any]:
    keys = [_key_form(numbers[key], seen) for key, seen in sorted(observations.keys.items())]
    return [observations.rows, observations.malformed, keys]


def _key_form(number: int, seen: KeySeen) -> list[int | None]:
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


def _key(form: Sequence[Any]) -> KeySeen:
    _, rows, nonnull, misfits, least, most, flags = form
    evidence = Evidence(
        None if least is None else _count(least),
        None if most is None else _count(most),
        bool(_count(flags) & _HAS_FLOATS),
        bool(flags & _HAS_BOOLEANS),
        bool(flags & _HAS_TEXT),
    )
    return KeySeen(_count(rows), _count(nonnull), _count(misfits), evidence)


def _count(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r:.40} is no whole number")
    return value


def _corrupt(broken: Exception) -> StateCorrupt:
    return StateCorrupt("a book of observations cannot be read", reason=str(broken)[:200])
