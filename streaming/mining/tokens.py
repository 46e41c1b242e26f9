"""Query text as words: one regular expression that knows strings, quoted names and comments.

It is what the fingerprint and the scanner stand on, and the reason why both are fast and never fail: any text at all has tokens.
Time is linear in the text. A string that never ends takes the rest of the text, so truncated queries lose only their last word.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple


if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(IntEnum):
    """What a token is."""

    NAME = 1
    QUOTED = 2
    """A name in backticks (or, for Trino, double quotes)."""
    STRING = 3
    OPEN = 4
    """A string that the text's end cuts off."""
    NUMBER = 5
    MARK = 6
    """Any other single character."""


class Token(NamedTuple):
    """A token; ``text`` as it stands there, quotes included."""

    kind: Kind
    text: str


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
_KINDS: Final = (None, Kind.NAME, Kind.QUOTED, Kind.STRING, Kind.OPEN, Kind.NUMBER, Kind.MARK)
_ESCAPE: Final = re.compile(r"\\(.)|(['\"])\2", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0"}


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of ``text``, comments and blanks left out."""
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        if group:
            kind = _KINDS[group]
            assert kind is not None
            yield Token(kind, match[0])


def nesting(text: str) -> int:
    """Return how deeply brackets and CASEs are nested at most, or how long the longest run of prefix operators is."""
    deepest = depth = run = 0
    for kind, word in tokens(text):
        if kind is Kind.MARK and word in "([<":
            depth += 1
        elif kind is Kind.MARK and word in ")]>":
            depth = max(0, depth - 1)
        elif kind is Kind.NAME and word.lower() == "case":
            depth += 1
        elif kind is Kind.NAME and word.lower() == "end":
            depth = max(0, depth - 1)
        run = run + 1 if word in "-+~!" or word.lower() == "not" else 0
        deepest = max(deepest, depth, run)
    return deepest


def string_value(token: Token) -> str:
    """Return what a string token stands for, both styles of escapes undone."""
    inner = token.text[1:] if token.kind is Kind.OPEN else token.text[1:-1]
    if "\\" not in inner and "''" not in inner and '""' not in inner:
        return inner
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]) if found[1] else found[2], inner)


def name_value(token: Token) -> str:
    """Return a name without its quotes."""
    return token.text if token.kind is Kind.NAME else token.text[1:-1]
