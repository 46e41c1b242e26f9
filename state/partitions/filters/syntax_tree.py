"""The syntax tree of a filter: comparisons under AND and OR, each with its position in the text.

AND and OR take any number of children, so a list of a thousand alternatives is one node instead of a thousand
levels. The parser turns everything else in the grammars into these nodes: BETWEEN into two comparisons, a
list of structs into an OR of ANDs, ``IS NOT TRUE`` into the inverted tree (as Hive does, so NULL matches
neither a condition nor its inversion).

``write_filter`` writes a tree as text, in the grammar of Hive 4. Hive 4 keeps the escapes of a text; quotes
of the kind that the text does not contain avoid them, and a text that ends in a backslash has no written
form. LIKE has its own escape: a backslash before ``%``, ``_`` and itself.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from state.errors import BadFilter
from state.partitions.filters.like_pattern import LikePattern
from state.partitions.keys.binary_sortable import Instant


PREFIX: Final = "Error parsing partition filter"
"""The beginning of Hive's own messages; clients match on it."""


_EXCERPT_CHARS: Final = 40
_PLAIN_NAME: Final = re.compile(
    r"(?!(?:not|and|or|like|const|struct|between|in|date|timestamp|is|true|false)\Z)\w+",
    re.ASCII | re.IGNORECASE,
)
_QUOTED: Final = {quote: re.compile(rf"(?:[^{quote}\\]|\\.)*+", re.DOTALL) for quote in "\"'"}
"""Content between two quotes."""
_ESCAPED_IN_PATTERNS: Final = re.compile(r"[%_\\]")


def excerpt(text: str) -> str:
    """Return the beginning of a text from a filter for a message, with control characters escaped."""
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text[:_EXCERPT_CHARS]
    )
    return f"{shown}..." if len(text) > _EXCERPT_CHARS else shown


class Operator(Enum):
    """A comparison operator; the value is its notation."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LIKE = "like"


FLIPPED: Final = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.NOT_EQUAL: Operator.NOT_EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
"""``10 < p`` means ``p > 10``."""
INVERTED: Final = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER_OR_EQUAL,
    Operator.LESS_OR_EQUAL: Operator.GREATER,
    Operator.GREATER: Operator.LESS_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS,
}


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; ``at`` is its position in the text, in characters from 0."""

    value: str | int | dt.date | Instant
    at: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column name as written in the filter."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column and a constant; ``reversed``: the constant comes first."""

    column: Column
    operator: Operator
    literal: Literal
    reversed: bool = False

    def by(self, operator: Operator, text: str | None = None) -> Comparison:
        """Return the comparison of the same column with another operator, and optionally with another
        text.
        """
        literal = self.literal if text is None else Literal(text, self.literal.at)
        return Comparison(self.column, operator, literal)

    def like(self, pattern: str) -> Comparison:
        """Return the comparison of the same column with a pattern."""
        return self.by(Operator.LIKE, pattern)


@dataclass(frozen=True, slots=True)
class Membership:
    """A column in a list of constants, or not in it."""

    column: Column
    literals: tuple[Literal, ...]
    negated: bool = False
    is_misread: bool = False
    """Whether its form is ``NOT IN (..) IS NOT TRUE`` or ``FALSE``, which Hive 4.2 reads as the opposite."""


@dataclass(frozen=True, slots=True)
class And:
    """True if all children are true."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if at least one child is true."""

    children: tuple[Node, ...]


Node = Comparison | Membership | And | Or


def join_nodes(kind: type[And | Or], children: list[Node]) -> Node:
    """Return a node with these children, or a single child itself."""
    return children[0] if len(children) == 1 else kind(tuple(children))


def conditions_of(node: Node) -> Iterator[Comparison | Membership]:
    """Yield the conditions of a tree, in their order in the text."""
    if isinstance(node, And | Or):
        for child in node.children:
            yield from conditions_of(child)
    else:
        yield node


def map_conditions(node: Node, change: Callable[[Comparison | Membership], Node]) -> Node:
    """Return the tree with every condition replaced."""
    match node:
        case And(children):
            return And(tuple(map_conditions(child, change) for child in children))
        case Or(children):
            return Or(tuple(map_conditions(child, change) for child in children))
        case _:
            return change(node)


def invert(node: Node) -> Node:
    """Return the inversion of ``node`` for values other than NULL; raise BadFilter for LIKE, as Hive does."""
    match node:
        case And(children):
            return Or(tuple(invert(child) for child in children))
        case Or(children):
            return And(tuple(invert(child) for child in children))
        case Membership(column, literals, negated, is_misread):
            return Membership(column, literals, not negated, is_misread)
        case Comparison(column, operator, literal, reversed_):
            if operator is Operator.LIKE:
                raise BadFilter(f"{PREFIX}: LIKE cannot be inverted", position=column.at)
            return Comparison(column, INVERTED[operator], literal, reversed_)


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
