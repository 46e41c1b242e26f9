"""How many values each slot has in the files that are retained: the truth by which a slot may be given to another key.

A slot with one forgotten value, given to another key, shows that value under the wrong name in Hive. So the truth is in the files, in
their ORC footers. Reading thousands of footers is slow, hence a partition that was written anew carries what was counted then, in
``tideline.nonnull``::

    <layout version>.<mark of the files>.<one character per slot>

The character is the number of bits of the count (``0`` none, ``1`` one, ``2`` two or three, ``3`` four to seven, …): exact where it
matters, and 1,500 slots fit into the 4,000 characters that a parameter has. The mark is a digest of the files' names and sizes. A
partition whose layout version or files are not those that were counted is not believed, and its footers are read: files that
somebody added, a crash between publishing and counting, a count of an older layout.

The counts that batches add up (``tideline.values``) are not enough here: they are a sum that does not say of which files, so a file
that nobody counted leaves them as they are. They say where to look for an empty slot; this says whether it is one.
"""

from __future__ import annotations

import hashlib
import re
import string
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from state.errors import BadInput, LimitExceeded
from streaming.table.parameters import LAYOUT_VERSION, NONNULL, VALUE_CHARS_MAX


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streaming.table.flat_table import HourPartition
    from streaming.table.storage import Entry, Storage


_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"
_FORM: Final = re.compile(r"(\d{1,18})\.([0-9a-f]{16})\.([0-9a-zA-Z+-]*)", re.ASCII)


def format_nonnull(layout_version: int, counts: Sequence[int], files: Iterable[Entry]) -> dict[str, str]:
    """Return the parameters that say: ``files`` hold ``counts`` values per slot, under this version of the layout."""
    digits = "".join(_DIGITS[min(count.bit_length(), len(_DIGITS) - 1)] for count in counts)
    text = f"{layout_version}.{digest_files(files)}.{digits}"
    if len(text) > VALUE_CHARS_MAX:
        raise LimitExceeded("a table has too many slots to be counted", slots=len(counts), hint="")
    return {LAYOUT_VERSION: str(layout_version), NONNULL: text}


def parse_nonnull(parameters: Mapping[str, str], files: Iterable[Entry]) -> tuple[int, ...] | None:
    """Return the least count per slot (0, 1, 2, 4, 8, …) that a partition's parameters tell; None where they tell of others.

    ``files`` are those that lie in the partition's directory now.
    """
    match = _FORM.fullmatch(parameters.get(NONNULL, ""))
    if match is None or match[1] != parameters.get(LAYOUT_VERSION) or match[2] != digest_files(files):
        return None
    return tuple(_least(_DIGITS.index(digit)) for digit in match[3])


def count_retained_values(
    partitions: Iterable[HourPartition],
    storage: Storage,
    footers: Callable[[Sequence[str]], Sequence[int]],
) -> tuple[int, ...]:
    """Return at least how many values each slot has in all ``partitions``; a 0 is certain.

    ``footers`` counts the values per slot of ORC files by their footers; it is asked for the files of partitions that are
    not believed. Slots behind the last that any file has are not in the answer: they have none.
    """
    totals: list[int] = []
    unknown: list[str] = []
    for partition in partitions:
        place = str(partition.location)
        files = list_data_files(storage, place)
        counts = parse_nonnull(partition.parameters, files)
        if counts is None:
            unknown += [f"{place}/{file.name}" for file in files]
        else:
            _add(totals, counts)
    if unknown:
        _add(totals, footers(unknown))
    return tuple(totals)


def list_data_files(storage: Storage, directory: str) -> list[Entry]:
    """Return the files of a partition's directory that readers see, sorted by name."""
    found = storage.list(directory)
    return [each for each in found if not each.is_directory and not each.name.startswith(("_", "."))]


def digest_files(files: Iterable[Entry]) -> str:
    """Return 16 hexadecimal digits that stand for the files' names and sizes."""
    lines = "".join(f"{file.size_bytes} {file.name}\n" for file in sorted(files))
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _least(bits: int) -> int:
    return 1 << (bits - 1) if bits else 0


def _add(totals: list[int], counts: Sequence[int]) -> None:
    totals += [0] * (len(counts) - len(totals))
    for slot, count in enumerate(counts):
        totals[slot] += count


CHARS_MAX: Final = 4_000
_BASE36_DIGITS: Final = string.digits + string.ascii_lowercase


def format_counts(counts: Sequence[int]) -> str:
    """Return the counts as a parameter."""
    text = ",".join(map(_base36, _trimmed(counts)))
    if len(text) <= CHARS_MAX:
        return text
    return f"#{sum(1 << slot for slot, count in enumerate(counts) if count):x}"


def parse_counts(text: str) -> tuple[int, ...]:
    """Read what ``format_counts`` wrote; BadInput for anything else."""
    try:
        if text.startswith("#"):
            bits = int(text[1:], 16)
            return tuple(bits >> slot & 1 for slot in range(bits.bit_length()))
        return tuple(int(each, 36) for each in text.split(",")) if text else ()
    except ValueError as error:
        raise BadInput("the counts of an hour's values cannot be read", text=text[:200]) from error


def add_counts(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return both together, slot by slot."""
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def _trimmed(counts: Sequence[int]) -> Sequence[int]:
    last = max((slot for slot, count in enumerate(counts) if count), default=-1)
    return counts[: last + 1]


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _BASE36_DIGITS[digit] + digits
        if not number:
            return digits
