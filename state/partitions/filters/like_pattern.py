"""LIKE in both dialects: what a pattern matches, and how much of it a range of keys can say.

A pattern is pieces of plain text and single wildcards between "any text" marks. It matches from the first character to the
last and minds case, as in the metastore. Matching looks for the pieces from left to right: its cost is text times pattern,
whatever the pattern (a regular expression engine can be made to run for ever, and patterns come from outside).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from state.partitions.filters.dialect import LikeDialect


_WORDS: Final = {
    LikeDialect.SQL: re.compile(r"(?P<any>%)|(?P<one>_)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL),
    LikeDialect.REGEX: re.compile(r"(?P<any>\.\*)|(?P<one>\.)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL),
}


@dataclass(frozen=True)
class LikePattern:
    """A pattern; ``pieces`` are the texts between its "any text" marks, each with None for a single wildcard."""

    pieces: tuple[tuple[str | None, ...], ...]

    @property
    def prefix(self) -> str:
        """The plain text that every match begins with."""
        text = []
        for character in self.pieces[0]:
            if character is None:
                break
            text.append(character)
        return "".join(text)

    @property
    def is_equality(self) -> bool:
        """Whether only ``prefix`` itself matches."""
        return len(self.pieces) == 1 and None not in self.pieces[0]

    @property
    def is_prefix(self) -> bool:
        """Whether every text that begins with ``prefix`` matches, and no other."""
        return len(self.pieces) == 2 and not self.pieces[1] and None not in self.pieces[0]

    def matches(self, text: str) -> bool:
        """Whether the whole of ``text`` matches."""
        first, *others = self._searches
        found = first.match(text)
        if found is None or not others:
            return found is not None and found.end() == len(text)
        at = found.end()
        for middle in others[:-1]:
            found = middle.search(text, at)
            if found is None:
                return False
            at = found.end()
        start = len(text) - len(self.pieces[-1])
        return start >= at and others[-1].match(text, start) is not None

    @cached_property
    def _searches(self) -> list[re.Pattern[str]]:
        return [
            re.compile("".join("." if one is None else re.escape(one) for one in piece), re.DOTALL)
            for piece in self.pieces
        ]


def parse_pattern(pattern: str, dialect: LikeDialect) -> LikePattern:
    """Read a pattern; every text is one."""
    pieces: list[list[str | None]] = [[]]
    for word in _WORDS[dialect].finditer(pattern):
        if word["any"]:
            pieces.append([])
        elif word["one"]:
            pieces[-1].append(None)
        else:
            pieces[-1].append(word["escaped"] or word["plain"])
    inner = [piece for piece in pieces[1:-1] if piece]
    ends = [pieces[0], *inner, pieces[-1]] if len(pieces) > 1 else pieces
    return LikePattern(tuple(tuple(piece) for piece in ends))
