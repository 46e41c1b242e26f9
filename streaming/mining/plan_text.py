"""The text of a Spark plan by its brackets: where a call ends, what its arguments are, which fields are taken behind it.

A plan's literals have lost their quotes, so nothing but brackets and commas tells where one ends, and one that holds a bracket may
be misread. What is misread ends with its line: brackets are paired line by line, as names and literals hold no line's end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final


_FIELD: Final = re.compile(r"\.(\w+)")
_BRACKET: Final = re.compile(r"\['[^'\n]*'\]|[()\[\]\n]")


@dataclass(slots=True)
class PlanText:
    """One plan's text; places are indices of characters."""

    text: str
    _closings: dict[int, int] = field(default_factory=dict)

    def closing(self, opening: int) -> int:
        """Return the place after the bracket that closes the one at ``opening``; the text's end where none does."""
        if not self._closings:
            self._find_brackets()
        return self._closings.get(opening, len(self.text))

    def call_end(self, at: int) -> int:
        """Return the place behind the call whose name begins at ``at``."""
        return self.closing(self.text.index("(", at))

    def arguments(self, opening: int, end: int) -> list[tuple[int, int]]:
        """Return where each argument begins and ends; they are separated by ``", "``."""
        found, start, at, inner = [], opening + 1, opening + 1, end - 1
        while at < inner:
            if self.text[at] in "([":
                at = self.closing(at)
            elif self.text.startswith(", ", at):
                found.append((start, at))
                start = at = at + 2
            else:
                at += 1
        return [*found, (start, inner)]

    def fields(self, at: int) -> tuple[list[str], int]:
        """Return the fields of ``.a.b`` at a place, none where there are none, and the place behind them."""
        names = []
        while (found := _FIELD.match(self.text, at)) is not None:
            names.append(found[1])
            at = found.end()
        return names, at

    def _find_brackets(self) -> None:
        opened: list[int] = []
        for found in _BRACKET.finditer(self.text):
            mark = found[0]
            if mark == "\n":
                for opening in opened:
                    self._closings[opening] = found.start()
                opened.clear()
            elif mark in "([":
                opened.append(found.start())
            elif mark in ")]" and opened:
                self._closings[opened.pop()] = found.end()
            elif len(mark) > 1:
                self._closings[found.start()] = found.end()
