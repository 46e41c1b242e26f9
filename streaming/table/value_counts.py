"""Counts of the values in each slot of an hour: two kinds of counts in partition parameters, for two
purposes.

**Sum of batches** (``tideline.values``): each batch adds its counts to those of an open hour without listing
the hour's files. The sum shows which slots may be empty and which hours have rows in ``_rescued``. ``3,0,2s``
means that slot 0 has 3 values, slot 1 none and slot 2 has 100 (base 36); trailing zeros are left out. A
metastore stores 4,000 characters per parameter. Longer counts are stored as ``#`` and a hexadecimal number
whose bit n is set if slot n has any value; such a count reads as 1.

**Count of files** (``tideline.nonnull``): the proof that a slot is empty. If a slot that still has a value is
given to another key, Hive shows the value under the wrong name. Only the ORC footers of the files prove that
there is none, and reading thousands of them is slow. A rewritten partition therefore stores the statistics of
its footers::

    <layout version>.<digest of the files>.<one character per slot>

The character is the bit length of the count (``0``: none, ``1``: one, ``2``: two or three, ``3``: four to
seven, and so on). This is exact for small numbers and fits 1,500 slots into one parameter. The digest covers
names and sizes of the files. If the layout version or the files are no longer the counted ones (a file was
added, a crash occurred between publishing and counting, the layout changed), the stored count is ignored and
the footers are read.

Neither count can replace the other. A sum lacks the values of uncounted files. A count of files would require
every batch to list the directory, and counts rounded to powers of two cannot be added up.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from state.errors import BadInput, LimitExceeded
from streaming.storage.port import Storage, StorageEntry
from streaming.table.flat_table import HourPartition
from streaming.table.parameters import LAYOUT_VERSION, NONNULL, VALUE_CHARS_MAX


_BASE36_DIGITS: Final = string.digits + string.ascii_lowercase
_BIT_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-"
_FORM: Final = re.compile(r"(\d{1,18})\.([0-9a-f]{16})\.([0-9a-zA-Z+-]*)", re.ASCII)


def format_counts(counts: Sequence[int]) -> str:
    """Return counts as the text of a parameter."""
    text = ",".join(map(_to_base36, _trim(counts)))
    if len(text) <= VALUE_CHARS_MAX:
        return text
    return f"#{sum(1 << slot for slot, count in enumerate(counts) if count):x}"


def parse_counts(text: str) -> tuple[int, ...]:
    """Return the counts that ``format_counts`` wrote. Raises BadInput for any other text."""
    try:
        if text.startswith("#"):
            bits = int(text[1:], 16)
            return tuple(bits >> slot & 1 for slot in range(bits.bit_length()))
        return tuple(int(each, 36) for each in text.split(",")) if text else ()
    except ValueError as error:
        raise BadInput("invalid value counts of an hour", text=text[:200]) from error


def add_counts(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return the sums, slot by slot."""
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


def format_nonnull(
    layout_version: int, counts: Sequence[int], files: Iterable[StorageEntry]
) -> dict[str, str]:
    """Return partition parameters which state that ``files`` hold ``counts`` values per slot, at this version
    of the layout.
    """
    digits = "".join(_BIT_DIGITS[min(count.bit_length(), len(_BIT_DIGITS) - 1)] for count in counts)
    text = f"{layout_version}.{digest_files(files)}.{digits}"
    if len(text) > VALUE_CHARS_MAX:
        raise LimitExceeded(
            "too many slots: their counts do not fit into a table parameter", slots=len(counts), hint=""
        )
    return {LAYOUT_VERSION: str(layout_version), NONNULL: text}


def parse_nonnull(parameters: Mapping[str, str], files: Iterable[StorageEntry]) -> tuple[int, ...] | None:
    """Return the lower bound per slot (0, 1, 2, 4, 8 and so on) that a partition's parameters state.

    ``files`` are the files now in the partition's directory. Returns None if the parameters describe other
    files.
    """
    match = _FORM.fullmatch(parameters.get(NONNULL, ""))
    if match is None or match[1] != parameters.get(LAYOUT_VERSION) or match[2] != digest_files(files):
        return None
    return tuple(_least(_BIT_DIGITS.index(digit)) for digit in match[3])


def count_retained_values(
    partitions: Iterable[HourPartition],
    storage: Storage,
    footers: Callable[[Sequence[str]], Sequence[int]],
) -> tuple[int, ...]:
    """Return a lower bound for the number of values of each slot in all ``partitions``; 0 is exact.

    ``footers`` counts the values of each slot in the footers of ORC files; it is called for partitions
    without a valid stored count. The result ends with the last slot that any file has; later slots have no
    values.
    """
    totals: list[int] = []
    unknown: list[str] = []
    for partition in partitions:
        directory = str(partition.location)
        files = list_data_files(storage, directory)
        counts = parse_nonnull(partition.parameters, files)
        if counts is None:
            unknown += [f"{directory}/{file.name}" for file in files]
        else:
            _add(totals, counts)
    if unknown:
        _add(totals, footers(unknown))
    return tuple(totals)


def list_data_files(storage: Storage, directory: str) -> list[StorageEntry]:
    """Return the files of a partition's directory that readers see, sorted by name."""
    entries = storage.list(directory)
    return [each for each in entries if not each.is_directory and not each.name.startswith(("_", "."))]


def digest_files(files: Iterable[StorageEntry]) -> str:
    """Return a digest of the files' names and sizes, 16 hexadecimal digits."""
    lines = "".join(f"{file.size_bytes} {file.name}\n" for file in sorted(files))
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _trim(counts: Sequence[int]) -> Sequence[int]:
    last = max((slot for slot, count in enumerate(counts) if count), default=-1)
    return counts[: last + 1]


def _to_base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _BASE36_DIGITS[digit] + digits
        if not number:
            return digits


def _least(bits: int) -> int:
    return 1 << (bits - 1) if bits else 0


def _add(totals: list[int], counts: Sequence[int]) -> None:
    totals += [0] * (len(counts) - len(totals))
    for slot, count in enumerate(counts):
        totals[slot] += count
