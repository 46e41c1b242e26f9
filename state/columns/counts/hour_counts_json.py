"""The stored form of hour counts: JSON that names each key once and refers to it by number.

A table's writer keeps ``HourCounts`` as JSON next to its checkpoint, and those of a single batch next to that
batch's plan. With numbers instead of keys, a month of 300 columns takes a few megabytes. Reading has limits,
and anything that this module would not have written raises StateCorrupt: wrong counts would free slots that
hold values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from state.columns.counts.observations import HourCounts, KeyCounts, Observations
from state.columns.counts.promotion import MisfitCounts
from state.columns.paths import KeyPath
from state.columns.types import Evidence
from state.errors import BadInput, LimitExceeded, StateCorrupt


FORMAT: Final = 1
"""Version of the form."""
JSON_CHARS_MAX: Final = 256 << 20
_KINDS: Final = "misfit_kinds"
"""Key of an addition to the form, which older versions ignore: the kinds of misfits."""
_TRAILING: Final = "trailing"
"""Another one: the rows with more text behind their document, by hour."""
_HAS_FLOATS: Final = 1
_HAS_BOOLEANS: Final = 2
_HAS_TEXT: Final = 4


def hour_counts_to_json(counts: HourCounts) -> str:
    """Return ``counts`` as JSON; equal counts give equal texts."""
    keys = sorted({key for observations in counts.hours.values() for key in observations.keys})
    numbers = {key: number for number, key in enumerate(keys)}
    hours = {str(hour): _encode_hour(seen, numbers) for hour, seen in sorted(counts.hours.items())}
    form = {"v": FORMAT, "batch": counts.batch, "keys": [key.text for key in keys], "hours": hours}
    kinds = {str(hour): _encode_kinds(seen, numbers) for hour, seen in sorted(counts.hours.items())}
    if any(kinds.values()):
        form[_KINDS] = {hour: each for hour, each in kinds.items() if each}
    if trailing := {str(hour): seen.trailing for hour, seen in sorted(counts.hours.items()) if seen.trailing}:
        form[_TRAILING] = trailing
    return json.dumps(form, separators=(",", ":"))


def hour_counts_from_json(text: str) -> HourCounts:
    """Read the output of ``hour_counts_to_json``; raise LimitExceeded beyond 256 Mi characters and
    StateCorrupt for anything else.
    """
    if len(text) > JSON_CHARS_MAX:
        raise LimitExceeded("hour counts are too long", chars=len(text), limit=JSON_CHARS_MAX)
    try:
        form = json.loads(text)
        if form["v"] != FORMAT:
            raise StateCorrupt("hour counts have another version", version=form["v"])
        keys = dict(enumerate(map(KeyPath.of_json_path, form["keys"])))
        hours = {int(hour): _decode_hour(each, keys) for hour, each in form["hours"].items()}
        for hour, each in form.get(_KINDS, {}).items():
            hours[int(hour)] = _decode_kinds(each, keys, hours[int(hour)])
        for hour, each in form.get(_TRAILING, {}).items():
            hours[int(hour)] = replace(hours[int(hour)], trailing=_decode_count(each))
        counts = HourCounts(hours, _decode_count(form["batch"]))
        counts.check()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as broken:
        raise _corrupt(broken) from None
    except (AssertionError, BadInput) as broken:
        raise _corrupt(broken) from None
    return counts


def _encode_hour(observations: Observations, numbers: Mapping[KeyPath, int]) -> list[Any]:
    keys = [_encode_key(numbers[key], counts) for key, counts in sorted(observations.keys.items())]
    return [observations.rows, observations.malformed, keys]


def _encode_kinds(observations: Observations, numbers: Mapping[KeyPath, int]) -> list[list[int]]:
    return [
        [numbers[key], *counts.kinds.to_list()]
        for key, counts in sorted(observations.keys.items())
        if counts.kinds.total
    ]


def _encode_key(number: int, counts: KeyCounts) -> list[int | None]:
    evidence = counts.evidence
    flags = (
        _HAS_FLOATS * evidence.has_floats
        | _HAS_BOOLEANS * evidence.has_booleans
        | _HAS_TEXT * evidence.has_text
    )
    return [number, counts.rows, counts.nonnull, counts.misfits, evidence.least, evidence.most, flags]


def _decode_hour(form: Sequence[Any], keys: Mapping[int, KeyPath]) -> Observations:
    rows, malformed, keys_form = form
    by_key = {keys[_decode_count(each[0])]: _decode_key(each) for each in keys_form}
    return Observations(_decode_count(rows), _decode_count(malformed), by_key)


def _decode_kinds(
    form: Sequence[Sequence[Any]], keys: Mapping[int, KeyPath], hour: Observations
) -> Observations:
    by_key = dict(hour.keys)
    for number, integers, wide_integers, fractions, others in form:
        key = keys[_decode_count(number)]
        counts = map(_decode_count, (integers, wide_integers, fractions, others))
        by_key[key] = replace(by_key[key], kinds=MisfitCounts(*counts))
    return replace(hour, keys=by_key)


def _decode_key(form: Sequence[Any]) -> KeyCounts:
    _, rows, nonnull, misfits, least, most, flags = form
    evidence = Evidence(
        None if least is None else _decode_count(least),
        None if most is None else _decode_count(most),
        bool(_decode_count(flags) & _HAS_FLOATS),
        bool(flags & _HAS_BOOLEANS),
        bool(flags & _HAS_TEXT),
    )
    return KeyCounts(_decode_count(rows), _decode_count(nonnull), _decode_count(misfits), evidence)


def _decode_count(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r:.40} is not a whole number")
    return value


def _corrupt(broken: Exception) -> StateCorrupt:
    return StateCorrupt("hour counts cannot be read", reason=str(broken)[:200])
