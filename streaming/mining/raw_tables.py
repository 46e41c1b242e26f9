"""Finds raw tables by the names in queries, and checks quickly whether a text can use one.

Most queries of a cluster do not concern raw tables. Mining reads a text only if it contains the name of a raw
table and a function or operator that can extract from JSON. The check takes microseconds. A false positive
costs time; there are no false negatives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from streaming.mining.model import MiningRules, RawTable
from streaming.mining.templates import VARIABLE


_FORMATS: Final = frozenset({"avro", "binaryfile", "csv", "delta", "json", "orc", "parquet", "text"})
_EXTRACTORS: Final = frozenset({"json", "->"})
"""Names in addition to the functions, most of which have "json" in their names."""
_COLON: Final = r"[\w)\]`]\s*:\s*[A-Za-z_\[`]"


class RawTables:
    """The configured raw tables."""

    def __init__(self, rules: MiningRules, functions: Iterable[str]) -> None:
        self._raw = {table.name: table for table in rules.raw_tables}
        self._views = {view: table for table in rules.raw_tables for view in table.views}
        self._default = rules.default_database
        names = {name.partition(".")[2] for name in (*self._raw, *self._views)}
        paths = {_path(table.location) for table in rules.raw_tables if table.location}
        self._table_pattern = re.compile("|".join(map(re.escape, sorted(names | paths))), re.IGNORECASE)
        self.columns = frozenset(table.json_column for table in rules.raw_tables)
        extractions = _shorten({*functions, *self.columns, *_EXTRACTORS})
        self._extraction_pattern = re.compile("|".join([*map(re.escape, extractions), _COLON]), re.IGNORECASE)

    def may_use(self, text: str) -> bool:
        """Whether the text may extract something from a raw table."""
        return (
            self._table_pattern.search(text) is not None and self._extraction_pattern.search(text) is not None
        )

    def may_extract(self, text: str) -> bool:
        """Whether the text may extract something from the JSON of any table."""
        return self._extraction_pattern.search(text) is not None

    def find(self, name: Sequence[str], current: str = "") -> tuple[RawTable, bool] | None:
        """Return the raw table with a name of up to three parts, and whether the name is that of a view over
        it.

        A name may be quoted as a whole (`` `db.table` ``). A name without a database, or with a template as
        its database, is in the current database. A directory after a format (``orc.`/data` ``) is the table
        stored there.
        """
        parts = ["", "", *(name[0].split(".") if len(name) == 1 else name)]
        if len(name) > 1 and parts[-2] in _FORMATS and "/" in parts[-1]:
            stored_there = self.find_by_location(parts[-1])
            return None if stored_there is None else (stored_there, False)
        catalog, database = parts[-3], "" if parts[-2] == VARIABLE else parts[-2]
        full = f"{database or current or self._default}.{parts[-1]}"
        table = self._raw.get(full) or self._views.get(full)
        if table is None or (catalog and catalog not in (*table.catalogs, VARIABLE)):
            return None
        return table, full in self._views

    def find_by_location(self, uri: str) -> RawTable | None:
        """Return the raw table whose directory contains ``uri``."""
        path = _path(uri)
        for table in self._raw.values():
            if table.location:
                root = _path(table.location)
                if path == root or path.startswith(root + "/"):
                    return table
        return None


def _shorten(words: Collection[str]) -> list[str]:
    """Return the ``words`` that contain no other of them. A text that contains any of the words contains one
    of these, too, and fewer words are faster to search.
    """
    return sorted(word for word in words if not any(other in word for other in words if other != word))


def _path(uri: str) -> str:
    """Normalize a URI: ``file:///a/``, ``file:/a`` and ``/a`` are the same directory."""
    return re.sub(r"^file:/+", "/", uri).rstrip("/")
