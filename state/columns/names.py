"""Names of columns: ``$.action.name`` is ``action/name``.

A name must survive three systems (flat-tables-hive4.md §1): the metastore converts it to lower case, Hive's
reader breaks on ``.``, ``:`` and ``,``, and Spark's reader breaks on a backtick and ignores case. A name
therefore consists of the members in lower case, joined by ``/``. A character that would break a reader is
written as ``%`` and the two hexadecimal digits of each UTF-8 byte, as in URLs. The same applies to characters
whose case differs between versions of Unicode (unassigned ones), to invisible characters, and to characters
of four bytes, which a metastore on MySQL may be unable to store.

Before the conversion to lower case, different keys have different names. Keys that differ only by case get
the suffix ``~1``, ``~2`` and so on. A name longer than 128 characters ends in a digest of its key.
"""

from __future__ import annotations

import hashlib
import itertools
import unicodedata
from collections.abc import Iterable
from typing import Final

from state.columns.paths import KeyPath
from state.errors import BadInput


NAME_CHARS_MAX: Final = 128
"""The limit of older metastores; newer ones allow 767."""
DIGEST_CHARS: Final = 16
RESERVED_NAMES: Final = frozenset(
    {
        "_rescued",
        "_metadata",
        "_corrupt_record",
        "block__offset__inside__file",
        "grouping__id",
        "input__file__name",
        "partition__spec__id",
        "raw__data__size",
        "row__id",
        "row__is__deleted",
        "row__offset__inside__block",
    }
)
"""Tideline's own columns, Spark's hidden ones and Hive's virtual ones."""
_ESCAPED: Final = frozenset(".:,`\\/%~")
_BREAKING: Final = frozenset(".:,`\\")
_ROOM_FOR_SUFFIX: Final = 8


def choose_column_name(key: KeyPath, used_names: Iterable[str]) -> str:
    """Return a name for ``key`` that differs from all names in ``used_names``, ignoring case. The choice is
    deterministic.

    ``used_names`` holds the table's column names and partition keys. Names that Hive, Spark and Tideline
    reserve always count as taken.
    """
    folded_taken = RESERVED_NAMES.union(map(fold_case, used_names))
    plain = _shorten("/".join(map(_escape, key.members)).lower(), key)
    candidates = itertools.chain([plain], (f"{plain}~{n}" for n in itertools.count(1)))
    name = next(each for each in candidates if fold_case(each) not in folded_taken)
    check_name(name)
    return name


def fold_case(name: str) -> str:
    """Return the form for comparing names.
    It is equal for names that the metastore or Spark may treat as equal.

    Java's ``equalsIgnoreCase`` also compares the upper-case forms, in which the long s equals ``s`` and the
    dotless i equals ``i``.
    """
    return name.lower().upper().lower().casefold()


def check_name(name: str, partition_keys: Iterable[str] = ()) -> None:
    """Raise BadInput if the metastore would refuse a column of this name, or a reader would break on it."""
    reason = _reason_against(name)
    if fold_case(name) in set(map(fold_case, partition_keys)):
        reason = "it is the name of a partition key"
    if reason:
        raise BadInput("invalid column name", name=name[:200], reason=reason)


def _reason_against(name: str) -> str:
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        return f"must have 1 to {NAME_CHARS_MAX} characters"
    if name != name.lower():
        return "must be lower case"
    if name.startswith("/") or name.endswith("/") or name != name.strip():
        return "must not begin or end with a slash or a space"
    broken = next((c for c in name if c in _BREAKING or not _is_visible(c)), None)
    return "" if broken is None else f"readers break on U+{ord(broken):04X}"


def _escape(member: str) -> str:
    last = len(member) - 1
    return "".join(
        _percent_encode(c) if c in _ESCAPED or not _is_visible(c) or (c == " " and at in {0, last}) else c
        for at, c in enumerate(member)
    )


def _is_visible(char: str) -> bool:
    return char == " " or (char <= "\uffff" and unicodedata.category(char)[0] not in "CZ")


def _percent_encode(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def _shorten(name: str, key: KeyPath) -> str:
    room = NAME_CHARS_MAX - _ROOM_FOR_SUFFIX
    return name if len(name) <= room else f"{name[: room - DIGEST_CHARS - 1]}~{digest_key(key)}"


def digest_key(key: KeyPath) -> str:
    """Return 16 hexadecimal digits that identify ``key``."""
    text = key.text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:DIGEST_CHARS]
