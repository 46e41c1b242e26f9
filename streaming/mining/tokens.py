"""Splits query texts into tokens with one regular expression, and makes fingerprints from the tokens.

The fingerprint and the scanner use tokens. Both are fast and never fail, because every text has tokens and
the time is linear in the length of the text. An unterminated string extends to the end of the text, so a
truncated query loses only its last token.

``TokenList`` adds paired brackets: the bounds of calls, their arguments and dotted names. Its positions are
indexes of tokens. A position before the first or behind the last token gives an empty token, so that callers
need not check the bounds. An unclosed bracket extends to the end.

All runs of the same query have one fingerprint. It omits everything that differs between runs (dates, ids,
layout, comments), and must keep everything that affects keys. Literals therefore stay if they may be a key:
in the arguments of JSON functions, in brackets, in the form of a path, and around code. Names that may be a
member (after ``.`` and ``:``, and in the brackets of a row type) keep their case. Two texts with the same
fingerprint request the same keys; property tests check this.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from streaming.mining.model import Form


DIGEST_BYTES: Final = 16
_CODE: Final = re.compile(r"[$(]|\bselect\b", re.IGNORECASE)
_NAMED_FIELDS: Final = frozenset({"row", "json_table"})
"""Brackets in which names are those of members."""
_ID: Final = re.compile(r"(?<=#)\d+")
_PER_RUN: Final = re.compile(r"plan_id=\d+|codegen id : \d+|Statistics\([^)]*\)")
_TOKEN: Final = re.compile(
    r"""\s+|--[^\n]*|/\*(?:.*?\*/|.*)
    |([^\W\d]\w*)
    |(`[^`]*(?:``[^`]*)*`)
    |('[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    |(['"].*)
    |(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\w*)
    |(.)""",
    re.VERBOSE | re.DOTALL,
)
"""The number of a group is the kind of its token."""
_ESCAPE: Final = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0"}


class TokenKind(IntEnum):
    """The kind of a token."""

    NAME = 1
    QUOTED = 2
    """A name in backticks, or in double quotes for Trino."""
    STRING = 3
    OPEN = 4
    """An unterminated string at the end of the text."""
    NUMBER = 5
    MARK = 6
    """Any other single character."""


_KINDS: Final = (TokenKind.MARK, *TokenKind)
"""The kinds by number; there is no kind 0."""


_NAME, _QUOTED, _MARK = TokenKind.NAME.value, TokenKind.QUOTED.value, TokenKind.MARK.value
NAME_KINDS: Final = frozenset({TokenKind.NAME, TokenKind.QUOTED})


class Token(NamedTuple):
    """A token; ``text`` includes the quotes."""

    kind: TokenKind
    text: str


_END: Final = Token(TokenKind.MARK, "")


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of ``text`` without comments and blanks."""
    for kind, part in tokenize_to_pairs(text):
        yield Token(_KINDS[kind], part)


def tokenize_to_pairs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the tokens as plain pairs of kind and text, which cost half as much: every text of a query log
    passes here.
    """
    for match in _TOKEN.finditer(text):
        if kind := match.lastindex:
            yield kind, match[0]


def measure_nesting(text: str) -> int:
    """Return the depth of nested brackets and CASEs, or the length of the longest run of prefix operators if
    it is greater.
    """
    deepest = depth = run = 0
    for kind, symbol in tokenize(text):
        if kind is TokenKind.MARK and symbol in "([<":
            depth += 1
        elif kind is TokenKind.MARK and symbol in ")]>":
            depth = max(0, depth - 1)
        elif kind is TokenKind.NAME and symbol.lower() == "case":
            depth += 1
        elif kind is TokenKind.NAME and symbol.lower() == "end":
            depth = max(0, depth - 1)
        run = run + 1 if symbol in "-+~!" or symbol.lower() == "not" else 0
        deepest = max(deepest, depth, run)
    return deepest


def string_value(token: Token) -> str:
    """Return the value of a string token, with both styles of escapes resolved."""
    inner = token.text[1:] if token.kind is TokenKind.OPEN else token.text[1:-1]
    if "\\" not in inner and "''" not in inner and '""' not in inner:
        return inner
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]) if escape[1] else escape[2], inner)


def name_value(token: Token) -> str:
    """Return a name without its quotes."""
    return token.text if token.kind is TokenKind.NAME else token.text[1:-1]


class TokenList:
    """The tokens of one text. ``functions`` are the lower-case names of the functions to find."""

    def __init__(self, text: str, functions: Container[str], *, is_trino: bool) -> None:
        """Read ``text``. Double quotes enclose names in Trino's dialect, and strings in all others."""
        self._functions = functions
        self._tokens = list(tokenize(text))
        if is_trino:
            self._tokens = [
                Token(TokenKind.QUOTED, each.text)
                if each.kind is TokenKind.STRING and each.text[0] == '"'
                else each
                for each in self._tokens
            ]
        self._closings: dict[int, int] = {}
        self._find_brackets()

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def token(self, at: int) -> Token:
        """Return the token at a position."""
        return self._tokens[at] if 0 <= at < len(self._tokens) else _END

    def lower_name(self, at: int) -> str:
        """Return a name in lower case without quotes, or the text of any other token."""
        token = self.token(at)
        return name_value(token).lower() if token.kind in NAME_KINDS else token.text

    def is_call(self, at: int) -> bool:
        """Whether the token at this position is the name of a called function, one of ``functions``."""
        return (
            self.token(at).kind is TokenKind.NAME
            and self.token(at + 1).text == "("
            and self.lower_name(at) in self._functions
        )

    def read_dotted(self, at: int) -> tuple[list[str], int]:
        """Read ``a.b.c``; return its parts and the position after it."""
        parts = [name_value(self.token(at))]
        at += 1
        while (
            self.token(at).text == "." and self.token(at + 1).kind in NAME_KINDS and not self.is_call(at + 1)
        ):
            parts.append(name_value(self.token(at + 1)))
            at += 2
        return parts, at

    def end_of_value(self, at: int) -> int:
        """Return the position after the name or call at ``at``, including its fields."""
        if self.is_call(at):
            return self.end_of_fields(self.end_of_bracket(at + 1))
        if self.token(at).kind not in NAME_KINDS:
            return at
        end = self.read_dotted(at)[1]
        return (
            self.end_of_value(end + 1)
            if self.is_call(end + 1) and self.token(end).text == "."
            else self.end_of_fields(end)
        )

    def end_of_fields(self, at: int) -> int:
        """Return the position after the fields of a value:
        ``.a``, ``:a.b``, ``['a']``, ``[0]``, ``->'a'``.
        """
        while True:
            if self.token(at).text in {".", ":"} and self.token(at + 1).kind in NAME_KINDS:
                at += 2
            elif self.token(at).text == "[" and self.token(at + 2).text == "]":
                at += 3
            elif operand := self.find_operand(at):
                at = operand + 1
            else:
                return at

    def find_operand(self, at: int) -> int:
        """Return the position of the text or number after ``->`` or ``->>`` at a position; 0 if there is
        none.
        """
        if self.token(at).text != "-" or self.token(at + 1).text != ">":
            return 0
        operand = at + 2 + (self.token(at + 2).text == ">")
        return operand if self.token(operand).kind in {TokenKind.STRING, TokenKind.NUMBER} else 0

    def end_of_bracket(self, opening: int) -> int:
        """Return the position after the bracket that closes the one at ``opening``; the end of the text if
        none does.
        """
        return self._closings.get(opening, len(self._tokens))

    def arguments(self, opening: int) -> list[tuple[int, int]]:
        """Return the begin and end of each argument."""
        end = self.end_of_bracket(opening)
        inner = end - 1 if self.token(end - 1).text == ")" else end
        arguments, start, at = [], opening + 1, opening + 1
        while at < inner:
            if self.token(at).text in {"(", "["} and self.token(at).kind is TokenKind.MARK:
                at = self.end_of_bracket(at)
                continue
            if self.token(at).text == ",":
                arguments.append((start, at))
                start = at + 1
            at += 1
        return [*arguments, (start, inner)] if start < inner else arguments

    def _find_brackets(self) -> None:
        opened: list[int] = []
        for at, token in enumerate(self._tokens):
            if token.kind is TokenKind.MARK and token.text in "([":
                opened.append(at)
            elif token.kind is TokenKind.MARK and token.text in ")]" and opened:
                self._closings[opened.pop()] = at + 1


def fingerprint(text: str, form: Form, functions: Container[str]) -> str:
    """Return the fingerprint of a text, 32 hexadecimal digits."""
    if form is Form.PYTHON:
        normal = text  # any string may name a table or a column
    else:
        normal = _renumber(text) if form is Form.PLAN else "\x1f".join(_significant_tokens(text, functions))
    return blake2b(f"{form}\x1e{normal}".encode("utf-8", "replace"), digest_size=DIGEST_BYTES).hexdigest()


def _significant_tokens(text: str, functions: Container[str]) -> list[str]:
    """Return the texts of the significant tokens. ``depth`` counts the open brackets inside a bracket whose
    literals are kept.
    """
    parts: list[str] = []
    depth, before = 0, ""
    for kind, part in tokenize_to_pairs(text):
        if kind == _MARK:
            if part in "([":
                depth += bool(depth) or part == "[" or before in functions or before in _NAMED_FIELDS
            elif depth and part in ")]":
                depth -= 1
            parts.append(part)
        elif kind == _NAME:
            parts.append(part if before in {".", ":"} or depth else part.lower())
        elif kind == _QUOTED or depth or _CODE.search(part) or (before in {">", ":"} and _is_operand(parts)):
            parts.append(part)
        elif parts[-2:] == ["?", ","]:
            # A list of literals counts as one literal: IN (1, 2, 3) and IN (7) are the same query
            parts.pop()
        else:
            parts.append("?")
        before = part.lower()
    return parts


def _is_operand(parts: list[str]) -> bool:
    """Whether the next token follows ``->``, ``->>``, ``#>``, ``#>>`` or ``:``, and so may be a key."""
    return parts[-1] == ":" or (len(parts) > 1 and parts[-2] in {"-", ">", "#"})


def _renumber(plan: str) -> str:
    """Number the ids in a plan in their order. Ids differ in every run, but equal ids must stay equal."""
    ids: dict[str, str] = {}
    return _ID.sub(lambda number: ids.setdefault(number[0], str(len(ids))), _PER_RUN.sub("", plan))
