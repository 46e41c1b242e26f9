"""One fingerprint for all runs of one query: what differs from run to run (dates, ids, layout, comments) is left out.

Nothing that decides about keys may be left out. So literals stay where they can be one: in the arguments of functions that take
JSON apart, in brackets, where they look like a path, and where they hold code; names keep their case where they may be a member
(after ``.`` and ``:``). Two texts with one fingerprint ask for the same keys, and that is what tests hold it to.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from streaming.mining.model import Form
from streaming.mining.tokens import TokenKind, tokenize


if TYPE_CHECKING:
    from collections.abc import Container


DIGEST_BYTES: Final = 16
_CODE: Final = re.compile(r"[$(]|\bselect\b", re.IGNORECASE)
_ID: Final = re.compile(r"(?<=#)\d+")
_PASSING: Final = re.compile(r"plan_id=\d+|codegen id : \d+|Statistics\([^)]*\)")


def fingerprint(text: str, form: Form, functions: Container[str]) -> str:
    """Return 32 hexadecimal digits; ``functions`` are the lower-case names of those whose literals are keys."""
    normal = _renumbered(text) if form is Form.PLAN else "\x1f".join(_words(text, functions))
    return blake2b(f"{form}\x1e{normal}".encode("utf-8", "replace"), digest_size=DIGEST_BYTES).hexdigest()


def _words(text: str, functions: Container[str]) -> list[str]:
    """Return the words that count. ``kept`` is how many brackets deep they are inside one whose literals stay."""
    words: list[str] = []
    kept, before = 0, ""
    for kind, word in tokenize(text):
        if kind is TokenKind.MARK:
            if word in "([":
                kept += bool(kept) or word == "[" or before in functions
            elif kept and word in ")]":
                kept -= 1
            words.append(word)
        elif kind is TokenKind.NAME:
            words.append(word if before in {".", ":"} else word.lower())
        elif kind is TokenKind.QUOTED or kept or _CODE.search(word):
            words.append(word)
        elif words[-2:] == ["?", ","]:
            words.pop()  # a list of literals counts as one, however long: IN (1, 2, 3) is the query that IN (7) was
        else:
            words.append("?")
        before = word.lower()
    return words


def _renumbered(plan: str) -> str:
    """Return a plan with its ids counted from its start: they are new in every run, but which are equal matters."""
    ids: dict[str, str] = {}
    return _ID.sub(lambda found: ids.setdefault(found[0], str(len(ids))), _PASSING.sub("", plan))
