"""Hive's column types as Spark's schema text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from state.errors import Unsupported


if TYPE_CHECKING:
    from collections.abc import Iterable


_CHARACTERS: Final = re.compile(r"\b(?:var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)
_LOCAL_TIME: Final = re.compile(r"\btimestamp with local time zone(?:\('[^']*'\))?", re.IGNORECASE)
_UNREADABLE: Final = re.compile(r"\b(?:uniontype|interval_\w+|void)\b", re.IGNORECASE)


def to_spark_type(hive_type: str) -> str:
    """Return the type in Spark's spelling; texts of limited length are read as strings. Raises Unsupported."""
    if _UNREADABLE.search(hive_type):
        raise Unsupported("Spark cannot read the type", type=hive_type[:200])
    return _LOCAL_TIME.sub("timestamp", _CHARACTERS.sub("string", hive_type))


def to_spark_schema(columns: Iterable[tuple[str, str]]) -> str:
    """Return the schema of ``columns``, pairs of name and Hive type."""
    return ", ".join(f"{_quote(name)} {to_spark_type(kind)}" for name, kind in columns)


def to_event_schema(columns: Iterable[tuple[str, str]]) -> str:
    """Return the schema of files of ACID events, whose rows have ``columns`` (OrcRecordUpdater)."""
    row = ", ".join(f"{_quote(name)}: {to_spark_type(kind)}" for name, kind in columns)
    return (
        "operation int, originalTransaction bigint, bucket int, rowId bigint, currentTransaction bigint, "
        f"row struct<{row}>"
    )


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
