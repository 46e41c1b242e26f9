"""Filters evaluated in Python as a database of Hive 4 evaluates them, on one column of texts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from state.partitions.filters.dialect import HIVE_4, LikeDialect
from state.partitions.filters.like_pattern import parse_pattern
from state.partitions.filters.parser import parse_filter
from state.partitions.filters.syntax_tree import FLIPPED, And, Comparison, Membership, Node, Operator, Or


_COMPARED: Final = {
    Operator.EQUAL: operator.eq,
    Operator.LESS: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
}


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _padded_units(text: str) -> bytes:
    return text.ljust(40).encode("utf-16-be", errors="surrogatepass")


@dataclass(frozen=True)
class TextDatabase:
    """How a database compares texts."""

    key: Callable[[str], Any]
    reads_wildcards: bool = False
    """Whether ``!=`` also excludes what LIKE would match, as in Hive 4.1 and later."""

    def finds(self, text: str, value: str) -> bool:
        """Whether a filter finds a partition with this value."""
        node = parse_filter(text, HIVE_4)
        return node is None or self._holds(node, value)

    def _holds(self, node: Node, value: str) -> bool:
        match node:
            case And(children):
                return all(self._holds(child, value) for child in children)
            case Or(children):
                return any(self._holds(child, value) for child in children)
            case Membership(column, literals, negated):
                kind = Operator.NOT_EQUAL if negated else Operator.EQUAL
                each = [self._compare(Comparison(column, kind, one), value) for one in literals]
                return all(each) if negated else any(each)
            case Comparison():
                return self._compare(node, value)

    def _compare(self, node: Comparison, value: str) -> bool:
        kind = FLIPPED[node.operator] if node.reversed else node.operator
        text = str(node.literal.value)
        ours, theirs = self.key(value), self.key(text)
        match kind:
            case Operator.LIKE:
                return _is_like(text, value)
            case Operator.NOT_EQUAL:
                return bool(ours != theirs) and not (self.reads_wildcards and _is_like(text, value))
            case _:
                return bool(_COMPARED[kind](ours, theirs))


def _is_like(pattern: str, value: str) -> bool:
    return parse_pattern(pattern, LikeDialect.SQL).matches(value)


BY_BYTES = TextDatabase(_bytes)
"""PostgreSQL, with the collation C."""
DERBY = TextDatabase(_padded_units, reads_wildcards=True)
