"""Tokens of the query of a view, by the rules of the engine that wrote it.

Strings and comments stay unchanged: what looks like a name in a string is part of the rows. The engines differ in what is a string: double quotes
enclose one in Hive and Spark and a name in Trino, and a backslash escapes the next character everywhere but in Trino.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
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
        """Whether it may be a name."""
        return self.kind != "mark"

    @property
    def name(self) -> str:
        """The name in lower case; empty if it is none."""
        if self.kind == "quoted":
            quote = self.text[0]
            return self.text[1:-1].replace(quote * 2, quote).lower()
        return self.text.lower() if self.kind == "word" else ""

    @property
    def word(self) -> str:
        """The word that it is without quotes, in lower case; empty if it has quotes."""
        return self.text.lower() if self.kind == "word" else ""

    def rename(self, name: str, dialect: Dialect) -> str:
        """Return the text with another name, in the same quotes; one without quotes gets them if it needs them."""
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
            return "its query has a comment in a comment"
    return None
