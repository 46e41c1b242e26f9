"""A filter as it was written: comparisons under AND and OR, each with its place in the text.

AND and OR take any number of children, so that a list of a thousand alternatives is one node and not a thousand levels.
What the grammars offer beyond that is turned into these nodes while reading: BETWEEN into two comparisons, lists of structs
into ORs of ANDs, ``IS NOT TRUE`` into the inverted tree (as Hive does it, so that NULL stays out on both sides).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from state.errors import BadFilter


if TYPE_CHECKING:
    import datetime as dt

    from state.partitions.keys.binary_sortable import Instant


PREFIX: Final = "Error parsing partition filter"
"""How Hive's own messages begin; clients match on it."""


class Operator(Enum):
    """What is asked of a column; the value is how it is written."""

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
    """A constant; ``at`` is where it begins in the text, counted in characters from 0."""

    value: str | int | dt.date | Instant
    at: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column's name as it was written."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a constant; ``reversed`` remembers that the constant came first."""

    column: Column
    operator: Operator
    literal: Literal
    reversed: bool = False


@dataclass(frozen=True, slots=True)
class Membership:
    """A column in a list, or not in it."""

    column: Column
    literals: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them at least."""

    children: tuple[Node, ...]


Node = Comparison | Membership | And | Or


def join_nodes(kind: type[And | Or], children: list[Node]) -> Node:
    """Return one node of its children; a single child stands for itself."""
    return children[0] if len(children) == 1 else kind(tuple(children))


def invert(node: Node) -> Node:
    """Return what is true where ``node`` is not, NULL aside; raise BadFilter for LIKE, as Hive does."""
    match node:
        case And(children):
            return Or(tuple(invert(child) for child in children))
        case Or(children):
            return And(tuple(invert(child) for child in children))
        case Membership(column, literals, negated):
            return Membership(column, literals, not negated)
        case Comparison(column, operator, literal, reversed_):
            if operator is Operator.LIKE:
                raise BadFilter(f"{PREFIX}: LIKE cannot be inverted", position=column.at)
            return Comparison(column, INVERTED[operator], literal, reversed_)
