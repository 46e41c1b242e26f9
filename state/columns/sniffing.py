"""Sniffing: derives from a sample of JSON texts which keys they hold, and of which kinds the values are.

The driver reads the sample with Python's JSON parser, configured to keep the precision that floats would
lose; Spark's parser splits all rows. Both must agree on the text of a value (spark-4.0.md §6), which requires
these rules:

* of two members with the same name, the last counts, as in a column;
* text behind the document is ignored, and counted unless it is a separator;
* raw control characters are accepted, but not NaN and Infinity;
* objects, arrays and numbers that no float can hold are text.

A text that is not a JSON object counts as malformed. No text raises an error.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from state.columns.counts.observations import KeyCounts, Observations
from state.columns.counts.promotion import MisfitCounts
from state.columns.paths import CHARS_MAX, KeyPath
from state.columns.rules import FlatRules
from state.columns.types import NOTHING, Evidence, integers


DOCUMENT_CHARS_MAX: Final = 16 << 20
KEYS_MAX: Final = 10_000
_INTEGER_CHARS_MAX: Final = 40
"""Longer integers count as text: the time of Python's conversion grows with the square of the length."""
_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,38}")
SEPARATORS: Final = " \t\r\n,\x1e"
"""Characters that may stand between two documents of a text."""
_SPACE: Final = re.compile(r"[ \t\r\n]*")


class _Fraction:
    """A number with a point or an exponent."""


_FRACTION: Final = _Fraction()
_FLOATS: Final = Evidence(has_floats=True)
_BOOLEANS: Final = Evidence(has_booleans=True)
_TEXT: Final = Evidence(has_text=True)


def sniff(
    texts: Iterable[str],
    rules: FlatRules,
    keys: Collection[KeyPath] | None = None,
    keys_max: int = KEYS_MAX,
) -> Observations:
    """Return observations of ``keys`` in ``texts``,
    or of every key down to ``rules.depth_max`` members if ``keys`` is None.

    Returns at most ``keys_max`` distinct keys and leaves out later ones. The row count of each key is the
    number of texts.
    """
    numeric = frozenset(key.members for key in rules.numeric_strings)
    only = None if keys is None else [key.members for key in keys]
    counts: dict[tuple[str, ...], _Count] = {}
    rows = malformed = trailing = 0
    for text in texts:
        rows += 1
        document, end = _parse_object(text)
        if document is None:
            malformed += 1
            continue
        trailing += bool(text[end:].strip(SEPARATORS))
        values = _find_all(document, rules.depth_max) if only is None else _find_chosen(document, only)
        for members, value in values:
            if members in counts or len(counts) < keys_max:
                counts.setdefault(members, _Count()).add(_evidence(value, is_numeric=members in numeric))
    keys_counts = {KeyPath(members): each.to_counts(rows, rules) for members, each in counts.items()}
    return Observations(rows, malformed, keys_counts, trailing)


def find_end(text: str) -> int:
    """Return the end of the JSON object at the beginning of ``text``; 0 if there is none."""
    return _parse_object(text)[1]


def _parse_object(text: str) -> tuple[dict[str, Any] | None, int]:
    """Return the JSON object at the beginning of ``text``, and its end."""
    if len(text) > DOCUMENT_CHARS_MAX:
        return None, 0
    try:
        start = _SPACE.match(text)
        document, end = _DECODER.raw_decode(text, start.end() if start else 0)
    except (ValueError, RecursionError):
        return None, 0
    return (document, end) if isinstance(document, dict) else (None, 0)


@dataclass(slots=True)
class _Count:
    """The values of one key so far."""

    values: int = 0
    wide_integers: int = 0
    fractions: int = 0
    others: int = 0
    """Values by kind, as in ``MisfitCounts``."""
    evidence: Evidence = NOTHING

    def add(self, evidence: Evidence) -> None:
        """Count one value."""
        kind = MisfitCounts.of_value(evidence)
        self.values += 1
        self.wide_integers += kind.wide_integers
        self.fractions += kind.fractions
        self.others += kind.others
        self.evidence = self.evidence.join(evidence)

    def to_counts(self, rows: int, rules: FlatRules) -> KeyCounts:
        """Return the counts. If a minority of the values does not fit the column type of the others, it
        counts as misfits, so that strays stay visible.
        """
        misfits = self._find_minority(rules)
        if 2 * misfits.total >= self.values:
            return KeyCounts(rows, self.values, 0, self.evidence)
        return KeyCounts(rows, self.values - misfits.total, misfits.total, self.evidence, misfits)

    def _find_minority(self, rules: FlatRules) -> MisfitCounts:
        """Return the values that no numeric type holds,
        and those that DOUBLE or BIGINT cannot hold if neither type holds all numbers.
        """
        if rules.exact_floats or self.wide_integers > self.fractions:
            return MisfitCounts(fractions=self.fractions, others=self.others)
        if self.fractions:
            return MisfitCounts(wide_integers=self.wide_integers, others=self.others)
        return MisfitCounts(others=self.others)


def _evidence(value: Any, *, is_numeric: bool) -> Evidence:
    if isinstance(value, bool):
        return _BOOLEANS
    if isinstance(value, int):
        return _integer_evidence(value)
    if isinstance(value, _Fraction):
        return _FLOATS
    if is_numeric and isinstance(value, str) and _CANONICAL_INTEGER.fullmatch(value):
        return _integer_evidence(int(value))
    return _TEXT


def _integer_evidence(value: int) -> Evidence:
    """Return the evidence of an integer. Beyond 64 bits it is text, and says nothing about the width of the
    other numbers.
    """
    evidence = integers(value, value)
    return evidence if evidence.is_within_64_bits else _TEXT


def _find_chosen(
    document: dict[str, Any], keys: Iterable[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for members in keys:
        value: Any = document
        for name in members:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            yield members, value


def _find_all(document: dict[str, Any], depth_max: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value that a key can name:
    not below arrays, nor behind names that are empty, too long or invalid Unicode.
    """
    pending: list[tuple[tuple[str, ...], dict[str, Any]]] = [((), document)]
    while pending:
        above, members = pending.pop()
        for name, value in members.items():
            key = (*above, name)
            if value is None or not _is_name(name) or sum(map(len, key)) > CHARS_MAX:
                continue
            yield key, value
            if isinstance(value, dict) and len(key) < depth_max:
                pending.append((key, value))


def _is_name(name: str) -> bool:
    return bool(name) and not any("\ud800" <= char <= "\udfff" for char in name)


def _parse_integer(text: str) -> int | str:
    return int(text) if len(text) <= _INTEGER_CHARS_MAX else text


def _parse_fraction(text: str) -> _Fraction | str:
    return _FRACTION if math.isfinite(float(text)) else text


def _reject_constant(text: str) -> Any:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(
    parse_float=_parse_fraction,
    parse_int=_parse_integer,
    parse_constant=_reject_constant,
    strict=False,
)
