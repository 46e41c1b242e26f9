"""The text of a view with the name of the target's database instead of the source's.

When a view is created, Hive expands the names in its query, each in its own form:

* tables to ```db`.`table```, in the upper and lower case of the statement;
* columns to ```alias`.`column```, where the alias may equal the name of the database, because a table may have that name;
* functions to ``db.function(…)``, without quotes.

Strings and comments stay unchanged: what looks like a name in a string is part of the rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Sequence


_TOKEN: Final = re.compile(
    r"""
    (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|--[^\n]*|\s+)
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>\w+)
    |(?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LEADS: Final = frozenset({"from", "join"})
"""Words in front of a table."""
_CLAUSES: Final = frozenset(
    {"select", "where", "group", "having", "window", "qualify", "order", "sort", "distribute", "cluster"}
    | {"limit", "union", "intersect", "except", "minus"}
)
"""Words that end a FROM clause."""


@dataclass(frozen=True, slots=True)
class _Token:
    """A part of the text that is neither string, comment nor space, at ``start``."""

    kind: str
    text: str
    start: int

    @property
    def name(self) -> str:
        """The name that it may be; empty if it is none."""
        return "" if self.kind == "mark" else self.text.strip("`").lower()


@dataclass(slots=True)
class _Scope:
    """What was read between two parentheses, or outside of all."""

    is_query: bool = False
    """False for arguments, as in ``extract(year from d)``."""
    is_empty: bool = True
    lists_tables: bool = False
    """Whether a comma precedes a table."""
    expects_table: bool = False


@dataclass
class _Tables:
    """Finds the tables of all FROM clauses, one token after the other."""

    scopes: list[_Scope] = field(default_factory=lambda: [_Scope()])
    last: str = ""

    def is_table(self, token: _Token) -> bool:
        """Whether the next token is the first one of a table's name."""
        scope, word = self.scopes[-1], token.name if token.kind == "word" else ""
        found = False
        if token.text == "(":  # encloses a subquery or a join, if it is in place of a table
            self.scopes.append(_Scope(is_query=scope.expects_table, expects_table=scope.expects_table))
        elif token.text == ")":
            self._close()
        elif word in _LEADS and self.last != "distinct":  # IS DISTINCT FROM compares
            scope.is_query |= scope.is_empty
            scope.lists_tables = scope.expects_table = scope.is_query
        elif word in _CLAUSES:
            scope.is_query |= word == "select"
            scope.lists_tables = scope.expects_table = False
        elif token.text == ",":
            scope.expects_table = scope.lists_tables
        else:
            found, scope.expects_table = scope.expects_table, False
        scope.is_empty, self.last = False, word
        return found

    def _close(self) -> None:
        if len(self.scopes) > 1:
            self.scopes.pop()
        self.scopes[-1].expects_table = False


def rename_database(text: str, old: str, new: str) -> str:
    """Return the text of a view with the database ``new`` instead of ``old``, which is in lower case."""
    tokens = [
        _Token(match.lastgroup or "", match[0], match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "text"
    ]
    for token in reversed(_find_database(tokens, old)):
        name = f"`{new}`" if token.kind == "quoted" else new
        text = text[: token.start] + name + text[token.start + len(token.text) :]
    return text


def _find_database(tokens: Sequence[_Token], name: str) -> list[_Token]:
    """Return the tokens that name the database.

    If a table, an alias or a column has its name too, only tables and functions show which ones these are.
    """
    named = [index for index, token in enumerate(tokens) if token.name == name]
    found = [index for index in named if _is_qualifier(tokens, index)]
    if len(found) < len(named):
        walk = _Tables()
        tables = {index for index, token in enumerate(tokens) if walk.is_table(token)}
        found = [index for index in found if index in tables or tokens[index].kind == "word"]
    return [tokens[index] for index in found]


def _is_qualifier(tokens: Sequence[_Token], index: int) -> bool:
    """Whether a name is the first one of several with dots between them; without quotes, only in front of a function."""
    if index > 0 and tokens[index - 1].text == ".":
        return False
    after = [token.text for token in tokens[index + 1 : index + 4]]
    return after[:1] == ["."] and (tokens[index].kind == "quoted" or after[2:] == ["("])
