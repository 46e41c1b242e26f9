"""LIKE patterns in both dialects: the texts that match, and the prefix that a range of keys can cover.

A pattern is a sequence of pieces (plain text and single-character wildcards) between "any text" wildcards. It
must match the whole text and is case-sensitive, as in the metastore. A search finds pieces from left to
right, so matching costs at most text length times pattern length. A regular expression for the whole pattern
could take exponential time, and patterns come from users. Compiling one for each piece takes longer than the
search, in a filter of many patterns more than a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final

from state.partitions.filters.dialect import LikeDialect


_TOKENS: Final = {
    LikeDialect.SQL: re.compile(r"(?P<any>%)|(?P<one>_)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL),
    LikeDialect.REGEX: re.compile(r"(?P<any>\.\*)|(?P<one>\.)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL),
}
_PARTS_MAX: Final = 8


@dataclass(frozen=True)
class LikePattern:
    """A pattern; ``pieces`` are the texts between its "any text" wildcards,
    with None for a single-character wildcard.
    """

    pieces: tuple[tuple[str | None, ...], ...]

    @property
    def prefix(self) -> str:
        """The plain text with which every match begins."""
        text = []
        for character in self.pieces[0]:
            if character is None:
                break
            text.append(character)
        return "".join(text)

    @property
    def is_equality(self) -> bool:
        """Whether the pattern matches ``prefix`` and nothing else."""
        return len(self.pieces) == 1 and None not in self.pieces[0]

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern matches exactly the texts that begin with ``prefix``."""
        return len(self.pieces) == 2 and not self.pieces[1] and None not in self.pieces[0]

    def to_sql(self) -> str:
        """Return the pattern in SQL, in any dialect."""
        pieces = (
            "".join("_" if one is None else escape_pattern(one) for one in piece) for piece in self.pieces
        )
        return "%".join(pieces)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of ``text``."""
        if len(text) < self._least_length:
            return False
        last = len(self.pieces) - 1
        at = self._piece(0).end_at(text, 0)
        if at < 0 or not last:
            return at == len(text)
        for number in range(1, last):
            at = self._piece(number).find_end(text, at)
            if at < 0:
                return False
        end = self._piece(last)
        start = len(text) - end.size
        return start >= at and end.end_at(text, start) >= 0

    @cached_property
    def _least_length(self) -> int:
        return sum(map(len, self.pieces))

    @cached_property
    def _built(self) -> dict[int, _Piece]:
        return {}

    def _piece(self, number: int) -> _Piece:
        """Return the search form of a piece; most are never reached, so each is built when needed."""
        piece = self._built.get(number)
        if piece is None:
            piece = self._built[number] = _Piece.of(self.pieces[number])
        return piece


@dataclass(frozen=True)
class _Piece:
    """A piece as its plain parts with their offsets,
    because compiling a regular expression takes longer than most searches.
    """

    size: int
    parts: tuple[tuple[int, str], ...]
    expression: re.Pattern[str] | None
    """For pieces of many parts, because searching for each part could take long."""

    @staticmethod
    def of(piece: tuple[str | None, ...]) -> _Piece:
        parts = []
        for is_wildcard, group in groupby(enumerate(piece), lambda one: one[1] is None):
            found = list(group)
            if not is_wildcard:
                parts.append((found[0][0], "".join(one or "" for _, one in found)))
        if len(parts) <= _PARTS_MAX:
            return _Piece(len(piece), tuple(parts), None)
        expression = "".join("." if one is None else re.escape(one) for one in piece)
        return _Piece(len(piece), tuple(parts), re.compile(expression, re.DOTALL))

    def end_at(self, text: str, start: int) -> int:
        """Return the end of the piece if it begins at ``start``, otherwise -1."""
        if start + self.size > len(text):
            return -1
        if self.expression is not None:
            return start + self.size if self.expression.match(text, start) else -1
        fits = all(text.startswith(part, start + offset) for offset, part in self.parts)
        return start + self.size if fits else -1

    def find_end(self, text: str, start: int) -> int:
        """Return the end of the first occurrence of the piece at or after ``start``, -1 if there is none."""
        if self.expression is not None:
            found = self.expression.search(text, start)
            return -1 if found is None else found.end()
        if not self.parts:
            return start + self.size if start + self.size <= len(text) else -1
        offset, part = self.parts[0]
        while (at := text.find(part, start + offset)) >= 0:
            end = self.end_at(text, at - offset)
            if end >= 0:
                return end
            start = at - offset + 1
        return -1


def escape_pattern(text: str) -> str:
    """Return the SQL pattern that matches a text and nothing else."""
    return re.sub(r"[%_\\]", r"\\\g<0>", text)


def parse_pattern(pattern: str, dialect: LikeDialect) -> LikePattern:
    """Read a pattern; every text is a valid pattern."""
    pieces: list[list[str | None]] = [[]]
    for token in _TOKENS[dialect].finditer(pattern):
        if token["any"]:
            pieces.append([])
        elif token["one"]:
            pieces[-1].append(None)
        else:
            pieces[-1].append(token["escaped"] or token["plain"])
    inner = [piece for piece in pieces[1:-1] if piece]
    ends = [pieces[0], *inner, pieces[-1]] if len(pieces) > 1 else pieces
    return LikePattern(tuple(tuple(piece) for piece in ends))
