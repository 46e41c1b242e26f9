"""The words of a filter, with their places; which texts are words depends on the generation.

What is no word becomes one of kind ``ODD`` and is an error only when the parser gets there, because both generations stop
reading at the end of the filter.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from state.errors import BadFilter
from state.partitions.filters.dialect import HiveVersion
from state.partitions.filters.syntax_tree import PREFIX
from state.partitions.keys.values import parse_date, parse_timestamp


if TYPE_CHECKING:
    import datetime as dt

    from state.partitions.keys.binary_sortable import Instant


class TokenKind(Enum):
    """What a word is."""

    NAME = "a column"
    KEYWORD = "a keyword"
    LITERAL = "a constant"
    OPERATOR = "an operator"
    MARK = "a parenthesis or comma"
    ODD = "nothing that belongs here"
    END = "the end"


class Token(NamedTuple):
    """One word: ``text`` is what it means (keywords in upper case, names without quotes)."""

    kind: TokenKind
    text: str
    at: int
    value: str | int | dt.date | Instant = ""


_KEYWORDS_2: Final = frozenset({"NOT", "AND", "OR", "LIKE", "CONST", "STRUCT", "BETWEEN", "IN"})
_KEYWORDS_4: Final = _KEYWORDS_2 | {"DATE", "TIMESTAMP", "IS", "TRUE", "FALSE"}
_COMMON: Final = r"""
    (?P<space>\s+)
  | (?P<mark>[(),])
  | (?P<operator><=>|<>|!=|<=|>=|==|=|<|>)
"""
_STRING: Final = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_TIME: Final = r"\d{4}-\d{2}-\d{2}[ ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?!\w)"
_DATE: Final = r"(?P<date>\d{4}-\d{2}-\d{2}(?!\w))"
_FORMS: Final = {
    HiveVersion.HIVE_2: re.compile(
        rf"{_COMMON}|(?P<string>{_STRING})|{_DATE}|(?P<integer>-?\d+(?!\w))|(?P<name>[A-Za-z0-9]\w*)",
        re.ASCII | re.VERBOSE | re.DOTALL,
    ),
    HiveVersion.HIVE_4: re.compile(
        rf"{_COMMON}|(?P<timed>(?:DATE|TIMESTAMP)\s*{_STRING})|(?P<string>{_STRING}(?:\s*{_STRING})*)|(?P<time>{_TIME})|{_DATE}"
        r"|(?P<integer>-?\s*\d+(?!\w))|(?P<name>\w+)|(?P<quoted>`(?:[^`]|``)+`)",
        re.ASCII | re.VERBOSE | re.DOTALL | re.IGNORECASE,
    ),
}
_INTEGER_DIGITS_MAX: Final = 19
LOOK_AHEAD: Final = 2
_LONG: Final = range(-(1 << 63), 1 << 63)
_GAPS: Final = re.compile(r"(['\"])\s+(?=['\"])")


def tokenize(text: str, hive_version: HiveVersion) -> list[Token]:
    """Return the words of a filter, closed by some of sort ``END``; raise BadFilter for a constant that is none."""
    found, at, form = [], 0, _FORMS[hive_version]
    keywords = _KEYWORDS_2 if hive_version is HiveVersion.HIVE_2 else _KEYWORDS_4
    while match := form.match(text, at):
        group = match.lastgroup
        if group != "space":
            found.append(_word(group or "", match[0], at, keywords))
        at = match.end()
    if at < len(text):
        found.append(Token(TokenKind.ODD, text[at], at))
    return found + [Token(TokenKind.END, "", len(text))] * (LOOK_AHEAD + 1)


def _word(group: str, text: str, at: int, keywords: frozenset[str]) -> Token:
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
            return _known(parse_date(text), text, at)
        case "time":
            return _known(parse_timestamp(text), text, at)
        case "timed":
            inner = re.sub(r"^\w+\s*", "", text)[1:-1]
            read = parse_date(inner) if text[0] in "dD" else parse_timestamp(inner)
            return _known(read, text, at)
    # As Hive: the outer quotes go, escapes stay as they are.
    return (_GAPS.sub(r"\1", text) if "\n" in text or " " in text else text)[1:-1]


def _integer(text: str, at: int) -> int:
    digits = text if text[0] != "-" else "-" + text[1:].lstrip()
    if len(digits) < _INTEGER_DIGITS_MAX:
        return int(digits)
    if len(digits.lstrip("-0")) > _INTEGER_DIGITS_MAX or int(digits) not in _LONG:
        raise BadFilter(f"{PREFIX}: the number does not fit 64 bits", position=at, found=text[:40])
    return int(digits)


def _known(value: dt.date | Instant | None, text: str, at: int) -> dt.date | Instant:
    if value is None:
        raise BadFilter(f"{PREFIX}: no such day or time in the calendar", position=at, found=text[:40])
    return value
