"""Names of columns: ``$.action.name`` is ``action/name``.

A name has to survive the metastore (which lower-cases it), Hive's reader (which breaks on ``.``, ``:`` and ``,``) and Spark's
(which breaks on a backtick and compares names without case), reference: flat-tables-hive4.md §1. So a name is the lower-case
members joined by ``/``; what would break is written as ``%`` and the two hexadecimal digits of each UTF-8 byte, as in URLs.
Characters whose case differs between versions of Unicode (unassigned ones), that nobody sees, or that need four bytes (a
metastore on MySQL may have no place for them) are written so too.

Before lower-casing, names are injective; two keys that differ by case alone get ``~1``, ``~2`` behind their name. A name longer
than 128 characters ends in a digest of its key.
"""

from __future__ import annotations

import hashlib
import itertools
import unicodedata
from typing import TYPE_CHECKING, Final

from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Iterable

    from state.columns.paths import KeyPath


NAME_CHARS_MAX: Final = 128
"""What old metastores' tables have room for; new ones have 767."""
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
"""Ours, Spark's hidden columns and Hive's virtual ones."""
_ESCAPED: Final = frozenset(".:,`\\/%~")
_BREAKING: Final = frozenset(".:,`\\")
_ROOM_FOR_SUFFIX: Final = 8


def choose_column_name(key: KeyPath, taken: Iterable[str]) -> str:
    """Return a name for ``key`` that no name in ``taken`` equals without case; the same for the same two.

    ``taken`` holds the table's column names and partition keys; names that Hive, Spark and Tideline need are always taken.
    """
    folded_taken = RESERVED_NAMES.union(map(fold_case, taken))
    plain = _shortened("/".join(map(_escaped, key.members)).lower(), key)
    candidates = itertools.chain([plain], (f"{plain}~{n}" for n in itertools.count(1)))
    name = next(each for each in candidates if fold_case(each) not in folded_taken)
    check_name(name)
    return name


def fold_case(name: str) -> str:
    """Return the form in which two names are compared: equal wherever the metastore or Spark may call them equal.

    Java's ``equalsIgnoreCase`` compares upper cases as well, for which the long s is an ``s`` and the dotless i an ``i``.
    """
    return name.lower().upper().lower().casefold()


def check_name(name: str, partition_keys: Iterable[str] = ()) -> None:
    """Raise BadInput where a column of this name would be refused, or would break a reader."""
    reason = _reason_against(name)
    if fold_case(name) in set(map(fold_case, partition_keys)):
        reason = "it is a partition key's"
    if reason:
        raise BadInput("a column name cannot be used", name=name[:200], reason=reason)


def _reason_against(name: str) -> str:
    if not 1 <= len(name) <= NAME_CHARS_MAX:
        return f"it has 1 to {NAME_CHARS_MAX} characters"
    if name != name.lower():
        return "the metastore makes it lower case"
    if name.startswith("/") or name.endswith("/") or name != name.strip():
        return "it begins or ends with a slash or a space"
    broken = next((c for c in name if c in _BREAKING or not _is_visible(c)), None)
    return "" if broken is None else f"readers break on U+{ord(broken):04X}"


def _escaped(member: str) -> str:
    last = len(member) - 1
    return "".join(
        _percent(c) if c in _ESCAPED or not _is_visible(c) or (c == " " and at in {0, last}) else c
        for at, c in enumerate(member)
    )


def _is_visible(char: str) -> bool:
    return char == " " or (char <= "\uffff" and unicodedata.category(char)[0] not in "CZ")


def _percent(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def _shortened(name: str, key: KeyPath) -> str:
    room = NAME_CHARS_MAX - _ROOM_FOR_SUFFIX
    return name if len(name) <= room else f"{name[: room - DIGEST_CHARS - 1]}~{digest_key(key)}"


def digest_key(key: KeyPath) -> str:
    """Return 16 hexadecimal digits that stand for ``key``."""
    text = key.text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:DIGEST_CHARS]
