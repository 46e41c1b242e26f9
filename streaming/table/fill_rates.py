"""How many values each slot of an hour has, short enough for a partition parameter.

``3,0,2s`` says: slot 0 has 3 values, slot 1 none, slot 2 has 100 (base 36); slots behind the last have none. A metastore has room
for 4,000 characters. Where the counts need more, ``#…`` says only which slots have any: the hexadecimal digits of a number whose
bit n is slot n. Nobody may conclude more from it: it counts as 1 each.

This is what the batches told, added up: every batch adds its counts to an open hour without a look at its files, and every
decision reads them, to see which slots may be free and which hours have rows in ``_rescued``. ``table.nonnull`` cannot stand in for
it, as it is about one set of files and rounds to powers of two: each batch would have to list the directory, and what it told would
not add up. Nor is this enough for that: a sum does not show a file that nobody counted, so no slot is given away on its word alone.
"""

from __future__ import annotations

import string
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Sequence


CHARS_MAX: Final = 4_000
_DIGITS: Final = string.digits + string.ascii_lowercase


def text_of(counts: Sequence[int]) -> str:
    """Return the counts as a parameter."""
    text = ",".join(map(_base36, _trimmed(counts)))
    if len(text) <= CHARS_MAX:
        return text
    return f"#{sum(1 << slot for slot, count in enumerate(counts) if count):x}"


def counts_of(text: str) -> tuple[int, ...]:
    """Read what ``text_of`` wrote; BadInput for anything else."""
    try:
        if text.startswith("#"):
            bits = int(text[1:], 16)
            return tuple(bits >> slot & 1 for slot in range(bits.bit_length()))
        return tuple(int(each, 36) for each in text.split(",")) if text else ()
    except ValueError as error:
        raise BadInput("the counts of an hour's values cannot be read", text=text[:200]) from error


def added(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return both together, slot by slot."""
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def _trimmed(counts: Sequence[int]) -> Sequence[int]:
    last = max((slot for slot, count in enumerate(counts) if count), default=-1)
    return counts[: last + 1]


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
