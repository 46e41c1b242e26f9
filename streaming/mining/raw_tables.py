"""Raw tables by the names that queries call them, and the quick look that tells which texts are worth reading.

Most of a cluster's queries have nothing to do with raw tables. A text is read only if a raw table's name and something that could
take its JSON apart both stand in it, which costs microseconds; being wrong there costs time, never a key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.mining.model import MiningRules, RawTable


_COLON: Final = r"[\w)\]`]\s*:\s*[A-Za-z_\[`]"


class RawTables:
    """The configured raw tables."""

    def __init__(self, rules: MiningRules, functions: Iterable[str]) -> None:
        self._raw = {table.name: table for table in rules.raw_tables}
        self._views = {view: table for table in rules.raw_tables for view in table.views}
        self._default = rules.default_database
        names = {name.partition(".")[2] for name in (*self._raw, *self._views)}
        places = {_bare(table.location) for table in rules.raw_tables if table.location}
        self._named = re.compile("|".join(map(re.escape, sorted(names | places))), re.IGNORECASE)
        columns = {re.escape(table.json_column) for table in rules.raw_tables}
        wanted = [*map(re.escape, sorted(functions)), *sorted(columns), _COLON]
        self._taken = re.compile("|".join(wanted), re.IGNORECASE)

    def may_use(self, text: str) -> bool:
        """Whether the text may ask a raw table for something."""
        return self._named.search(text) is not None and self._taken.search(text) is not None

    def raw(self, catalog: str, database: str, name: str) -> tuple[RawTable, bool] | None:
        """Return the raw table of this name and whether it is a view over it; "" stands for the defaults."""
        full = f"{database or self._default}.{name}"
        table = self._raw.get(full) or self._views.get(full)
        if table is None or (catalog and catalog not in table.catalogs):
            return None
        return table, full in self._views

    def at(self, uri: str) -> RawTable | None:
        """Return the raw table whose directory holds ``uri``."""
        place = _bare(uri)
        for table in self._raw.values():
            if table.location:
                root = _bare(table.location)
                if place == root or place.startswith(root + "/"):
                    return table
        return None


def _bare(uri: str) -> str:
    """``file:///a/``, ``file:/a`` and ``/a`` are one place."""
    return re.sub(r"^file:/+", "/", uri).rstrip("/")
