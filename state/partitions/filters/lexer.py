"""The lexer of the filter language:
splits a filter into tokens with their positions, by the rules of a Hive version.

A character that starts no token becomes a token of kind ``UNKNOWN``. It is an error only when the parser
reaches it, because all Hive versions stop reading at the end of the filter.
"""

from __future__ import annotations

import datetime as dt
import re
from enum import Enum
from typing import Final, NamedTuple

from state.errors import BadFilter
from state.partitions.filters.dialect import HiveVersion
from state.partitions.filters.syntax_tree import PREFIX, excerpt
from state.partitions.keys.binary_sortable import Instant
from state.partitions.keys.values import parse_date, parse_timestamp


class TokenKind(Enum):
    """The kind of a token; the value describes it in messages."""

    NAME = "a column"
    KEYWORD = "a keyword"
    LITERAL = "a constant"
    OPERATOR = "an operator"
    MARK = "a parenthesis or comma"
    UNKNOWN = "an unexpected character"
    END = "the end"


class Token(NamedTuple):
    """A token with normalized ``text`` (keywords in upper case, names without quotes)."""

    kind: TokenKind
    text: str
    at: int
    value: str | int | dt.date | Instant = ""


LOOK_AHEAD: Final = 2
"""How many tokens the parser looks ahead."""
_KEYWORDS_2: Final = frozenset({"NOT", "AND", "OR", "LIKE", "CONST", "STRUCT", "BETWEEN", "IN"})
_KEYWORDS_4: Final = _KEYWORDS_2 | {"DATE", "TIMESTAMP", "IS", "TRUE", "FALSE"}
_COMMON: Final = r"""
    (?P<space>\s+)
  | (?P<mark>[(),])
  | (?P<operator><=>|<>|!=|<=|>=|==|=|<|>)
"""
_STRING: Final = r"""(?:'(?:[^'\\]++|\\.)*+'|"(?:[^"\\]++|\\.)*+")"""
"""Possessive: an unterminated text of 1 MiB would otherwise cost 264 MiB of positions to return to."""
_NAME_CHARS_MAX: Final = 1_024
"""Characters of a name in backquotes, more than a metastore allows."""
_TIME: Final = r"\d{4}-\d{2}-\d{2}[ ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?!\w)"
_DATE: Final = r"(?P<date>\d{4}-\d{2}-\d{2}(?!\w))"
_TOKENS: Final = {
    HiveVersion.HIVE_2: re.compile(
        rf"{_COMMON}|(?P<string>{_STRING})|{_DATE}|(?P<integer>-?\d+(?!\w))|(?P<name>[A-Za-z0-9]\w*)",
        re.ASCII | re.VERBOSE | re.DOTALL,
    ),
    HiveVersion.HIVE_4: re.compile(
        rf"{_COMMON}|(?P<timed>(?:DATE|TIMESTAMP)\s*{_STRING})|(?P<string>{_STRING})|(?P<time>{_TIME})|{_DATE}"
        rf"|(?P<integer>-?\s*\d+(?!\w))|(?P<name>\w+)|(?P<quoted>`(?:[^`]|``){{1,{_NAME_CHARS_MAX}}}`)",
        re.ASCII | re.VERBOSE | re.DOTALL | re.IGNORECASE,
    ),
}
_FURTHER_STRING: Final = re.compile(rf"\s*+{_STRING}", re.ASCII | re.DOTALL)
"""Matched one by one: Python before 3.11.5 lets a possessive group end within a repetition that fails."""
_UNESCAPED: Final = re.compile(
    rf"{_COMMON}|(?P<string>'[^']*+'|\"[^\"]*+\")|{_DATE}|(?P<integer>-?\d+(?!\w))|(?P<name>[^\s(),<>=!'\"`]+)",
    re.ASCII | re.VERBOSE,
)
"""Spark writes every column name unchanged, even ``a-b``."""
_INTEGER_DIGITS_MAX: Final = 19
_LONG: Final = range(-(1 << 63), 1 << 63)
_find_texts: Final = re.compile(_STRING, re.DOTALL).findall


def tokenize(text: str, hive_version: HiveVersion, *, has_escapes: bool = True) -> list[Token]:
    """Return the tokens of a filter, followed by tokens of kind ``END``;
    raise BadFilter for an invalid constant.

    Without ``has_escapes`` (Hive 2 only), a text ends at the next quote of its kind, even after a backslash.
    """
    tokens, at, pattern = [], 0, _TOKENS[hive_version] if has_escapes else _UNESCAPED
    joins_texts = hive_version is HiveVersion.HIVE_4 and has_escapes
    keywords = _KEYWORDS_2 if hive_version is HiveVersion.HIVE_2 else _KEYWORDS_4
    while match := pattern.match(text, at):
        group, end = match.lastgroup, match.end()
        while group == "string" and joins_texts and (further := _FURTHER_STRING.match(text, end)):
            end = further.end()
        if group != "space":
            tokens.append(_token(group or "", text[at:end], at, keywords))
        at = end
    if at < len(text):
        tokens.append(Token(TokenKind.UNKNOWN, text[at], at))
    return tokens + [Token(TokenKind.END, "", len(text))] * (LOOK_AHEAD + 1)


def _token(group: str, text: str, at: int, keywords: frozenset[str]) -> Token:
    match group:
        case "name":
            upper = text.upper()
            return (
                Token(TokenKind.KEYWORD, upper, at) if upper in keywords else Token(TokenKind.NAME, text, at)
            )
        case "mark":
            return Token(TokenKind.MARK, text, at)
        case "operator":
            return Token(TokenKind.OPERATOR, text, at)
        case "quoted":
            return Token(TokenKind.NAME, text[1:-1].replace("``", "`"), at)
    return Token(TokenKind.LITERAL, text, at, _constant(group, text, at))


def _constant(group: str, text: str, at: int) -> str | int | dt.date | Instant:
    match group:
        case "integer":
            return _integer(text, at)
        case "date":
            return _valid(parse_date(text), text, at)
        case "time":
            return _valid(parse_timestamp(text), text, at)
        case "timed":
            inner = re.sub(r"^\w+\s*", "", text)[1:-1]
            value = parse_date(inner) if text[0] in "dD" else parse_timestamp(inner)
            return _valid(value, text, at)
    return _text(text)


def _text(written: str) -> str:
    """Return the value of one text, or of several in a row, by Hive's rules.

    Drops blanks between texts and keeps blanks within a text. Escapes remain too. Removes the outer quotes
    only if they are of one kind: Hive 4 reads ``'a' "b"`` as the text ``'a'"b"``.
    """
    if written.find(written[0], 1) == len(written) - 1:
        return written[1:-1]
    joined = "".join(_find_texts(written))
    return joined[1:-1] if joined[0] == joined[-1] else joined


def _integer(text: str, at: int) -> int:
    sign, digits = ("-", text[1:].lstrip()) if text[0] == "-" else ("", text)
    significant = digits.lstrip("0") or "0"  # int() refuses more than 4,300 digits, zeros included
    if len(significant) > _INTEGER_DIGITS_MAX or (value := int(sign + significant)) not in _LONG:
        raise BadFilter(f"{PREFIX}: the number does not fit in 64 bits", position=at, found=excerpt(text))
    return value


def _valid(value: dt.date | Instant | None, text: str, at: int) -> dt.date | Instant:
    if value is None:
        raise BadFilter(f"{PREFIX}: not a valid date or time", position=at, found=excerpt(text))
    return value
