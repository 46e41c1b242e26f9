"""LIKE patterns in both dialects: what a pattern matches, and which prefix a range of keys can cover.

A pattern is a sequence of pieces (plain text and single-character wildcards) between "any text" wildcards. It must match the whole
text and is case-sensitive, as in the metastore. Pieces are searched from left to right, so matching costs at most text length
times pattern length. A regular expression for the whole pattern could take exponential time, and patterns come from users.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from state.partitions.filters.dialect import LikeDialect


_TOKENS: Final = {
    LikeDialect.SQL: re.compile(r"(?P<any>%)|(?P<one>_)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL),
    LikeDialect.REGEX: re.compile(r"(?P<any>\.\*)|(?P<one>\.)|\\(?P<escaped>.)|(?P<plain>.)", re.DOTALL),
}


@dataclass(frozen=True)
class LikePattern:
    """A pattern; ``pieces`` are the texts between its "any text" wildcards, with None for a single-character wildcard."""

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

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of ``text``."""
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
