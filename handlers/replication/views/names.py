"""Finds the names of tables, functions and columns in the query of a view,
by the rules of the engine that wrote it.

The module reads a query as tokens. Strings and comments stay unchanged: a name in a string is part of the
rows. The engines differ in their strings: double quotes enclose one in Hive and Spark and a name in Trino,
and a backslash escapes the next character everywhere but in Trino.

Only the position of a name shows its meaning. ``shop.orders`` is a table after FROM, and a column of a table
or alias ``shop`` elsewhere. So it follows the FROM clauses from token to token.

Hive expands the names of its views, with tables as ```db`.`table```, columns as ```alias`.`column``` and
functions as ``db.function(…)``; Hive 2.3 and 3.1 write the last as ```db.function`(…)``. Spark and Trino
store queries as they were typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes queries."""

    engine: Literal["hive", "spark", "trino"]
    quote: str
    """The character around names; Spark may accept double quotes as well."""
    pattern: re.Pattern[str]


_SPACE: Final = r"--[^\n]*|/\*.*?\*/|\s+"
_SPARK_SPACE: Final = rf"--(?:\\\n|[^\n])*|{_SPACE}"
"""A comment continues after a backslash."""
_ESCAPED: Final = r"""'(?:[^'\\]|\\.)*'"""
_ESCAPED_DOUBLE: Final = r'''"(?:[^"\\]|\\.)*"'''
_RAW: Final = r"""[rR]'[^']*'|[rR]"[^"]*\""""
_BACK_QUOTED: Final = r"`(?:[^`]|``)*`"
_DOUBLE_QUOTED: Final = r'"(?:[^"]|"")*"'


def _compile(text: str, quoted: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<text>{text})|(?P<quoted>{quoted})|(?P<word>\w+)|(?P<mark>.)", re.DOTALL)


HIVE: Final = Dialect("hive", "`", _compile(f"{_ESCAPED}|{_ESCAPED_DOUBLE}|{_SPACE}", _BACK_QUOTED))
SPARK: Final = Dialect(
    "spark", "`", _compile(f"{_RAW}|{_ESCAPED}|{_ESCAPED_DOUBLE}|{_SPARK_SPACE}", _BACK_QUOTED)
)
SPARK_ANSI: Final = Dialect(
    "spark", "`", _compile(f"{_RAW}|{_ESCAPED}|{_SPARK_SPACE}", f"{_BACK_QUOTED}|{_DOUBLE_QUOTED}")
)
"""Spark with ``spark.sql.ansi.doubleQuotedIdentifiers``."""
TRINO: Final = Dialect("trino", '"', _compile(f"'(?:[^']|'')*'|{_SPACE}", _DOUBLE_QUOTED))

_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """A part of the text that is neither string, comment nor space, at ``start``."""

    kind: str
    text: str
    start: int

    @property
    def is_name(self) -> bool:
        """Whether the token may be a name."""
        return self.kind != "mark"

    @property
    def name(self) -> str:
        """The name in lower case, without its quotes; empty if the token cannot be a name."""
        if self.kind == "quoted":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote).lower()
        return self.text.lower() if self.kind == "word" else ""

    @property
    def word(self) -> str:
        """The text of a word without quotes, in lower case; empty for other tokens."""
        return self.text.lower() if self.kind == "word" else ""

    def rename(self, name: str, dialect: Dialect) -> str:
        """Return ``name`` as text in place of this token, in the same quotes; without quotes, the name
        gets some only if it needs them.
        """
        if self.kind != "quoted" and _PLAIN.fullmatch(name):
            return name
        quote = self.text[0] if self.kind == "quoted" else dialect.quote
        return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def read_tokens(text: str, dialect: Dialect) -> list[Token]:
    """Return the tokens of a query."""
    return [
        Token(match.lastgroup or "", match[0], match.start())
        for match in dialect.pattern.finditer(text)
        if match.lastgroup != "text"
    ]


def find_problem(text: str, dialect: Dialect) -> str | None:
    """Return why the query cannot be read with certainty; None if it can."""
    for match in dialect.pattern.finditer(text):
        if match.lastgroup == "mark" and match[0] in "'\"`":
            return "its query has a quote without an end"
        if match.lastgroup == "text" and match[0].startswith("/*") and "/*" in match[0][2:]:
            return "its query has nested comments"
    return None


_LEADS: Final = frozenset({"from", "join"})
"""Words before the name of a table."""
_CLAUSES: Final = frozenset(
    {"select", "where", "group", "having", "window", "qualify", "order", "sort", "distribute", "cluster"}
    | {"limit", "union", "intersect", "except", "minus"}
)
"""Words that end a FROM clause."""
_OPENING: Final = frozenset("([")
_CLOSING: Final = frozenset(")]")

Kind = Literal["table", "function", "column"]


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one or more parts with dots between them."""

    kind: Kind
    tokens: tuple[Token, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """Its parts in lower case."""
        return tuple(token.name for token in self.tokens)


@dataclass(slots=True)
class _Scope:
    """Tokens between two parentheses, or outside of all."""

    is_query: bool = False
    """False for arguments, as in ``extract(year from d)``."""
    is_empty: bool = True
    lists_tables: bool = False
    """Whether a comma precedes a table."""
    expects_table: bool = False
    has_lateral_view: bool = False


@dataclass
class _Tables:
    """Finds the tables of all FROM clauses, one token after the other."""

    scopes: list[_Scope] = field(default_factory=lambda: [_Scope()])
    last: str = ""

    def step(self, token: Token, after: str) -> bool:
        """Follow the next token; return whether it begins the name of a table. ``after`` is the text of
        the token after it.
        """
        scope, word = self.scopes[-1], token.word
        starts_table = False
        if token.text in _OPENING:  # encloses a subquery or a join, if it is in place of a table
            expects = token.text == "(" and (scope.expects_table or self.last == "table")
            self.scopes.append(_Scope(is_query=expects, expects_table=expects))
        elif token.text in _CLOSING:
            self._close()
        elif word in _LEADS and self.last != "distinct":  # IS DISTINCT FROM compares
            scope.is_query |= scope.is_empty
            scope.lists_tables = scope.expects_table = scope.is_query
        elif word == "table" and after not in {"(", ".", ",", ""}:
            scope.is_query |= scope.is_empty
            scope.expects_table = scope.is_query
        elif word in _CLAUSES:
            scope.is_query |= word == "select"
            scope.lists_tables = scope.expects_table = scope.has_lateral_view = False
        elif token.text == ",":
            scope.expects_table = scope.lists_tables
        elif word != "lateral" or not scope.expects_table:
            starts_table, scope.expects_table = scope.expects_table, False
            self._follow_lateral_view(scope, word)
        scope.is_empty, self.last = False, word
        return starts_table

    def _follow_lateral_view(self, scope: _Scope, word: str) -> None:
        """The names after AS of LATERAL VIEW are columns."""
        if word == "view" and self.last == "lateral":
            scope.has_lateral_view = True
        elif word == "as" and scope.has_lateral_view:
            scope.lists_tables = scope.has_lateral_view = False

    def _close(self) -> None:
        if len(self.scopes) > 1:
            self.scopes.pop()
        self.scopes[-1].expects_table = False


def find_names(text: str, dialect: Dialect) -> list[Name]:
    """Return the names in a query in their order, without tables that a WITH clause defines and columns
    without a dot.
    """
    tokens = read_tokens(text, dialect)
    walk, common = _Tables(), _find_common_tables(tokens)
    names: list[Name] = []
    index = 0
    while index < len(tokens):
        end = _find_end(tokens, index)
        parts = tuple(tokens[index:end:2])
        after = tokens[end].text if end < len(tokens) else ""
        is_table = walk.step(tokens[index], after)
        kind = _classify(parts, after, common, is_table=is_table)
        if kind is not None and not _is_inner(tokens, index, dialect):
            names.append(Name(kind, parts))
        index = end
    return names


def _find_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after a name with all of its parts, or after any other token."""
    end = start + 1
    if not tokens[start].is_name:
        return end
    while end + 1 < len(tokens) and tokens[end].text == "." and tokens[end + 1].is_name:
        end += 2
    return end


def _classify(parts: tuple[Token, ...], after: str, common: frozenset[str], *, is_table: bool) -> Kind | None:
    first = parts[0]
    if not first.is_name or first.text.isdigit():
        return None
    if after == "(":
        return "function"
    if is_table:
        return None if len(parts) == 1 and first.name in common else "table"
    # db.table.column, db.table.*
    return "column" if len(parts) > 2 or (len(parts) == 2 and after == ".") else None  # noqa: PLR2004


def _is_inner(tokens: Sequence[Token], index: int, dialect: Dialect) -> bool:
    """Whether a name continues an expression: ``f(x).a``, and Spark's ``payload:a.b``."""
    before = tokens[index - 1].text if index else ""
    return before == "." or (before == ":" and dialect.engine == "spark")


def _find_common_tables(tokens: Sequence[Token]) -> frozenset[str]:
    """Return the names that WITH clauses define: ``name AS (``, perhaps with columns in between."""
    names = set()
    for index, token in enumerate(tokens[:-1]):
        before = tokens[index - 1].text.lower() if index else ""
        if token.is_name and before in {"with", "recursive", ","}:
            end = index + 1
            if tokens[end].text == "(":
                while end < len(tokens) and tokens[end].text != ")":
                    end += 1
                end += 1
            if [each.text.lower() for each in tokens[end : end + 2]] == ["as", "("]:
                names.add(token.name)
    return frozenset(names)
