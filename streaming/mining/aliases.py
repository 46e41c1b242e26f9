"""Finds the aliases in a scanned text: of raw tables, and of values that calls extract.

Without a parser there are no scopes, so a name may mean anything that the text defines for it anywhere. The
scanner uses only names with a single meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from streaming.mining.model import RawTable
from streaming.mining.raw_tables import RawTables
from streaming.mining.tokens import NAME_KINDS, TokenList


_BEFORE_TABLE: Final = frozenset({"from", "join", "table", "using", "update", ","})
_NO_ALIAS: Final = frozenset(
    {
        "and",
        "anti",
        "as",
        "asc",
        "between",
        "case",
        "cluster",
        "cross",
        "desc",
        "distribute",
        "else",
        "end",
        "except",
        "from",
        "full",
        "group",
        "having",
        "in",
        "inner",
        "insert",
        "intersect",
        "is",
        "join",
        "lateral",
        "left",
        "like",
        "limit",
        "map",
        "natural",
        "not",
        "nulls",
        "on",
        "or",
        "order",
        "outer",
        "over",
        "pivot",
        "qualify",
        "reduce",
        "right",
        "rlike",
        "select",
        "semi",
        "set",
        "sort",
        "tablesample",
        "then",
        "union",
        "unpivot",
        "using",
        "values",
        "when",
        "where",
        "window",
        "with",
    }
)


@dataclass(slots=True)
class NamedValue:
    """The meaning of a name: the position of the call that extracts the value, and the index of the key."""

    at: int
    which: int = 0


@dataclass(slots=True)
class Aliases:
    """The names of one text. Call ``find`` once."""

    tokens: TokenList
    tables: RawTables
    database: str
    raw: dict[str, tuple[RawTable, bool]] = field(default_factory=dict)
    """Raw tables by each of their names in the text, and whether the name is that of a view."""
    named: dict[str, list[NamedValue]] = field(default_factory=dict)

    def find(self, positions: list[int]) -> None:
        """Find all names. ``positions`` are the positions of the calls."""
        self._find_tables()
        for at in positions:
            self._find_names(at)
        for at in range(len(self.tokens)):
            self._find_column_aliases(at)

    def raw_of(self, column: str) -> list[tuple[RawTable, bool]]:
        """Return the raw tables in the text that have a JSON column of this name."""
        return list(
            {
                table.name: (table, is_view)
                for table, is_view in self.raw.values()
                if table.json_column == column
            }.values()
        )

    def _find_tables(self) -> None:
        for at in range(1, len(self.tokens)):
            if (
                self.tokens.token(at).kind not in NAME_KINDS
                or self.tokens.lower_name(at - 1) not in _BEFORE_TABLE
            ):
                continue
            parts, end = self.tokens.read_dotted(at)
            name = [part.lower() for part in parts[-3:]]
            table = self.tables.find(name, self.database)
            if table is None:
                continue
            end += self.tokens.lower_name(end) == "as"
            alias = self.tokens.lower_name(end) if self.tokens.token(end).kind in NAME_KINDS else ""
            for alias_name in {name[-1], name[-1].rpartition(".")[2], *({alias} - _NO_ALIAS - {""})}:
                self.raw[alias_name] = table

    def _find_names(self, at: int) -> None:
        """Record the names of the values that the call at ``at`` extracts: ``f(…) AS a``, ``f(…) a``, ``VIEW
        f(…) t AS a, b``.
        """
        end = self.tokens.end_of_fields(self.tokens.end_of_bracket(at + 1))
        if self.tokens.lower_name(at - 1) in {"view", "outer"}:
            end += self.tokens.token(end).kind in NAME_KINDS and self.tokens.lower_name(end) != "as"
            end += self.tokens.lower_name(end) == "as"
            self._record_list(end, at)
            return
        has_as = self.tokens.lower_name(end) == "as"
        end += has_as
        if has_as and self.tokens.token(end).text == "(":
            self._record_list(end + 1, at)
        elif self.tokens.token(end).kind in NAME_KINDS and self.tokens.lower_name(end) not in _NO_ALIAS:
            self._record(self.tokens.lower_name(end), NamedValue(at))

    def _record_list(self, end: int, at: int) -> None:
        which = 0
        while self.tokens.token(end).kind in NAME_KINDS and self.tokens.lower_name(end) not in _NO_ALIAS:
            self._record(self.tokens.lower_name(end), NamedValue(at, which))
            which += 1
            if self.tokens.token(end + 1).text != ",":
                break
            end += 2

    def _find_column_aliases(self, at: int) -> None:
        """Record ``json AS j``."""
        if (
            self.tokens.lower_name(at) == "as"
            and self.tokens.token(at + 1).kind in NAME_KINDS
            and self.tokens.token(at - 1).kind in NAME_KINDS
        ):
            start = at - 1
            while (
                self.tokens.token(start - 1).text == "." and self.tokens.token(start - 2).kind in NAME_KINDS
            ):
                start -= 2
            if any(self.tokens.lower_name(at - 1) == table.json_column for table, _ in self.raw.values()):
                self._record(self.tokens.lower_name(at + 1), NamedValue(start))

    def _record(self, name: str, named: NamedValue) -> None:
        self.named.setdefault(name, []).append(named)
