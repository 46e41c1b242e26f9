"""Splits the text of an error into its parts, so that a card can show the message and the next step first.

The status has an error as one text, ``[code] message (name=value, ...). hint``
(``state.errors.TidelineError``). A text of another form, or a truncated one, counts as a message as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


_CODE: Final = re.compile(r"(?:^|(?<=: ))(?:[a-z0-9-]+: )?\[([a-z0-9-]+)\] ")
_DETAILS: Final = re.compile(r" \((?=\w+=)")


@dataclass(frozen=True, slots=True)
class ProblemText:
    """The parts of an error's text: message, values and next step. Only the message is never empty."""

    message: str
    details: str = ""
    fix: str = ""
    code: str = ""


def split_problem(text: str, hint: str = "") -> ProblemText:
    """Return the parts of an error's text. A known ``hint`` is recognized even if the text has no values."""
    code = ""
    if found := _CODE.search(text):
        code, text = found[1], text[: found.start()] + text[found.end() :]
    if hint and text.endswith(hint):
        text = text.removesuffix(hint).rstrip()
    start = _DETAILS.search(text)
    end = None if start is None else _closing(text, start.end())
    if start is None or end is None:
        return ProblemText(_sentence(text), fix=hint, code=code)
    fix = " ".join(filter(None, (text[end + 1 :].lstrip(".").strip(), hint)))
    return ProblemText(_sentence(text[: start.start()]), text[start.end() : end], fix, code)


def _closing(text: str, begin: int) -> int | None:
    """Return the position of the parenthesis that closes the one that opens before ``begin``."""
    depth = 1
    for place in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    return None


def _sentence(text: str) -> str:
    """Return a text as a sentence; a name at its beginning, such as ``part-0001``, stays as it is."""
    text = text.strip().rstrip(".")
    if text.partition(" ")[0].isalpha():
        text = f"{text[0].upper()}{text[1:]}"
    return f"{text}." if text else ""
