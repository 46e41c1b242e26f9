"""Writes a syntax tree as the text of a filter, in the grammar of Hive 4.

Hive 4 keeps the escapes of a text, so a text is written in the kind of quotes that it does not contain, and a text that ends in a
backslash cannot be written. LIKE has an escape of its own: a backslash before ``%``, ``_`` and itself.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final

from state.errors import BadFilter
from state.partitions.filters.syntax_tree import PREFIX, And, Comparison, Membership, Node, Or, excerpt


if TYPE_CHECKING:
    from state.partitions.filters.like_pattern import LikePattern
    from state.partitions.filters.syntax_tree import Literal


_PLAIN_NAME: Final = re.compile(r"(?!(?:not|and|or|like|const|struct|between|in|date|timestamp|is|true|false)\Z)\w+", re.ASCII | re.IGNORECASE)  # fmt: skip
_QUOTED: Final = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*+", re.DOTALL) for quote in "\"'"}
"""What can stand between two quotes."""
_ESCAPED_IN_PATTERNS: Final = re.compile(r"[%_\\]")


def write_filter(node: Node) -> str:
    """Return the text of a filter; raise BadFilter for a constant that the grammar cannot express."""
    match node:
        case And(children):
            return f"({' and '.join(map(write_filter, children))})"
        case Or(children):
            return f"({' or '.join(map(write_filter, children))})"
        case Membership(column, literals, negated):
            listed = ", ".join(map(_write_literal, literals))
            return f"({_write_name(column.name)}) {'not ' if negated else ''}in ({listed})"
        case Comparison(column, operator, literal, is_reversed):
            sides = [_write_name(column.name), _write_literal(literal)]
            left, right = reversed(sides) if is_reversed else sides
            return f"{left} {operator.value} {right}"


def write_pattern(pattern: LikePattern) -> str:
    """Return a pattern in SQL's notation."""
    return "%".join(
        "".join("_" if one is None else escape_pattern(one) for one in piece) for piece in pattern.pieces
    )


def escape_pattern(text: str) -> str:
    """Return the pattern in SQL's notation that matches only ``text``."""
    return _ESCAPED_IN_PATTERNS.sub(r"\\\g<0>", text)


def is_writable(text: str) -> bool:
    """Whether a text can be a constant of a filter."""
    return _quote(text) is not None


def _write_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def _write_literal(literal: Literal) -> str:
    value = literal.value
    if isinstance(value, int):
        return str(value)
    text = (
        _quote(value.isoformat() if isinstance(value, dt.date) else value)
        if isinstance(value, str | dt.date)
        else None
    )
    if text is None:
        raise BadFilter(
            f"{PREFIX}: the constant cannot be written for Hive 4",
            constant=excerpt(str(value)),
            position=literal.at,
        )
    return text


def _quote(text: str) -> str | None:
    for quote in "\"'":
        if _QUOTED[quote].fullmatch(text):
            return f"{quote}{text}{quote}"
    return None
