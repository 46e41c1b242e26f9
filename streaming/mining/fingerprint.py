"""Fingerprints: one for all runs of the same query. What differs between runs (dates, ids, layout, comments) is left out.

Anything that affects keys must be kept. Literals are therefore kept wherever they may be a key: in the arguments of JSON functions, in
brackets, where they look like a path, and where they contain code. Names keep their case where they may be a member (after ``.`` and
``:``, and in the brackets of a row type). Two texts with the same fingerprint request the same keys; property tests check this.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from streaming.mining.model import Form
from streaming.mining.tokens import TokenKind, tokenize_to_pairs


if TYPE_CHECKING:
    from collections.abc import Container


DIGEST_BYTES: Final = 16
_NAME, _QUOTED, _MARK = TokenKind.NAME.value, TokenKind.QUOTED.value, TokenKind.MARK.value
_CODE: Final = re.compile(r"[$(]|\bselect\b", re.IGNORECASE)
_NAMED_FIELDS: Final = frozenset({"row", "json_table"})
"""Brackets in which names are those of members."""
_ID: Final = re.compile(r"(?<=#)\d+")
_PER_RUN: Final = re.compile(r"plan_id=\d+|codegen id : \d+|Statistics\([^)]*\)")


def fingerprint(text: str, form: Form, functions: Container[str]) -> str:
    """Return 32 hexadecimal digits. ``functions`` holds the lower-case names of the functions whose literals are keys."""
    if form is Form.PYTHON:
        normal = text  # any string may name a table or a column
    else:
        normal = _renumber(text) if form is Form.PLAN else "\x1f".join(_significant_tokens(text, functions))
    return blake2b(f"{form}\x1e{normal}".encode("utf-8", "replace"), digest_size=DIGEST_BYTES).hexdigest()


def _significant_tokens(text: str, functions: Container[str]) -> list[str]:
    """Return the texts of the significant tokens. ``kept`` is the depth of brackets inside one whose literals are kept."""
    parts: list[str] = []
    kept, before = 0, ""
    for kind, part in tokenize_to_pairs(text):
        if kind == _MARK:
            if part in "([":
                kept += bool(kept) or part == "[" or before in functions or before in _NAMED_FIELDS
            elif kept and part in ")]":
                kept -= 1
            parts.append(part)
        elif kind == _NAME:
            parts.append(part if before in {".", ":"} or kept else part.lower())
        elif kind == _QUOTED or kept or _CODE.search(part) or (before in {">", ":"} and _is_operand(parts)):
            parts.append(part)
        elif parts[-2:] == ["?", ","]:
            parts.pop()  # a list of literals counts as one literal: IN (1, 2, 3) and IN (7) are the same query
        else:
            parts.append("?")
        before = part.lower()
    return parts


def _is_operand(parts: list[str]) -> bool:
    """Whether the next token follows ``->``, ``->>``, ``#>``, ``#>>`` or ``:``, and so may be a key."""
    return parts[-1] == ":" or (len(parts) > 1 and parts[-2] in {"-", ">", "#"})


def _renumber(plan: str) -> str:
    """Number the ids of a plan from its start. They differ in every run, but which of them are equal matters."""
    ids: dict[str, str] = {}
    return _ID.sub(lambda found: ids.setdefault(found[0], str(len(ids))), _PER_RUN.sub("", plan))
