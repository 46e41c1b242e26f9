"""Rewrites a filter so that a metastore of Hive 4 finds every partition that it finds by the order of bytes.

Readers compare texts by their bytes. What a metastore compares differs in ways that lose partitions:

- Derby and MySQL pad texts with blanks: ``'a '`` equals ``'a'``, so ``s != 'a'`` does not find it. PostgreSQL does not pad.
- Derby compares UTF-16 units, in which characters beyond U+FFFF come before U+E000.
- Hive 4.1 and later compare names as well. ``s != 'x_y'`` reads ``_`` and ``%`` as wildcards, and ``hr = 7`` does not find ``hr=07``.

The rewritten filter finds the same on a database that compares bytes. It uses LIKE, which never pads. What a database finds
in addition is left: ``s = 'a'`` may find ``'a '``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeGuard

from state.errors import BadFilter, LimitExceeded
from state.partitions.filters.dialect import HIVE_4
from state.partitions.filters.filter_text import escape_pattern, write_filter
from state.partitions.filters.parser import parse_filter
from state.partitions.filters.syntax_tree import (
    FLIPPED,
    And,
    Comparison,
    Membership,
    Node,
    Operator,
    Or,
    conditions_of,
    join_nodes,
    map_conditions,
)
from state.partitions.keys.values import DEFAULT_PARTITION


if TYPE_CHECKING:
    from collections.abc import Iterable


REWRITTEN_MAX: Final = 64
"""Conditions up to which a filter is rewritten exactly; Derby takes minutes to plan more."""
_MAY_DIFFER: Final = re.compile(r"[<>!=]|\bnot\b|\bin\b|\bbetween\b", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{1,4}-\d{1,2}-\d{1,2}(?: .*)?", re.DOTALL)
"""Texts that a column of dates or timestamps may be compared with: LIKE is not for these."""
_WILDCARDS: Final = re.compile(r"[%_\\]")
_LOW, _HIGH = "\ue000", "\uffff"
_BEYOND: Final = "\U00010000"
_BLANK: Final = " "
_UNITS: Final = re.compile("[\ue000-\U0010ffff]")
_PADS: Final = re.compile(r"[\x00-\x20]")
_BELOW: Final = frozenset({Operator.LESS, Operator.LESS_OR_EQUAL})


def compare_by_bytes(text: str, *, may_widen: bool = True) -> str:
    """Return the rewritten filter, or ``text`` if it need not or cannot be rewritten.

    A filter of more than ``REWRITTEN_MAX`` conditions is widened instead, which adds few conditions: it finds more than it must.
    Without ``may_widen`` it is returned unchanged.
    """
    if not _MAY_DIFFER.search(text):
        return text
    try:
        node = parse_filter(text, HIVE_4)
        if node is None:
            return text
        changed = _rewrite(node, may_widen=may_widen)
        return text if changed == node else write_filter(changed)
    except (BadFilter, LimitExceeded):
        return text


def _rewrite(node: Node, *, may_widen: bool) -> Node:
    conditions = list(conditions_of(node))
    if any(isinstance(one, Membership) and one.is_misread for one in conditions):
        return node  # written again, it would mean the opposite
    if sum(len(one.literals) if isinstance(one, Membership) else 1 for one in conditions) <= REWRITTEN_MAX:
        return map_conditions(node, _rewrite_condition)
    return _widen(node, conditions) if may_widen else node


def _rewrite_condition(node: Comparison | Membership) -> Node:
    if isinstance(node, Comparison):
        return _rewrite_comparison(node)
    comparisons = _expand(node)
    changed = [_rewrite_comparison(one) for one in comparisons]
    return node if changed == comparisons else join_nodes(And if node.negated else Or, changed)


def _expand(node: Membership) -> list[Comparison]:
    operator = Operator.NOT_EQUAL if node.negated else Operator.EQUAL
    return [Comparison(node.column, operator, literal) for literal in node.literals]


def _rewrite_comparison(node: Comparison) -> Node:
    value, operator = node.literal.value, _operator(node)
    if isinstance(value, int) and operator is Operator.EQUAL:
        return And((node.by(Operator.GREATER_OR_EQUAL), node.by(Operator.LESS_OR_EQUAL)))
    if not _is_text(value) or operator in {Operator.EQUAL, Operator.LIKE}:
        return node
    if operator is not Operator.NOT_EQUAL:
        return (
            Or((node, *_add_below(node, value)))
            if operator in _BELOW
            else Or((node, *_add_above(node, value)))
        )
    if _WILDCARDS.search(value):
        below, above = node.by(Operator.LESS), node.by(Operator.GREATER)
        return Or((below, above, *_add_below(node, value), *_add_above(node, value)))
    return Or((node, node.like(f"{escape_pattern(value)} %"), *_shorter(node, value)))


def _operator(node: Comparison) -> Operator:
    return FLIPPED.get(node.operator, node.operator) if node.reversed else node.operator


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value != DEFAULT_PARTITION and not _DATE.fullmatch(value)


def _add_above(node: Comparison, text: str) -> list[Node]:
    """Return what is above ``text`` by its bytes, and may not be for a database: what it begins, and characters beyond U+FFFF."""
    surrogates = [
        _between(node, text[:at] + _BEYOND, text[:at] + _LOW, Operator.LESS)
        for at, character in enumerate(text)
        if _LOW <= character <= _HIGH
    ]
    return [node.like(f"{escape_pattern(text)}_%"), *surrogates]


def _add_below(node: Comparison, text: str) -> list[Node]:
    """Return what is below ``text`` by its bytes, and may not be for a database."""
    high = [
        _between(node, text[:at] + _LOW, text[:at] + _HIGH, Operator.LESS_OR_EQUAL)
        for at, character in enumerate(text)
        if character > _HIGH
    ]
    return [*_shorter(node, text), *high]


def _between(node: Comparison, low: str, high: str, to: Operator) -> Node:
    return And((node.by(Operator.GREATER_OR_EQUAL, low), node.by(to, high)))


def _shorter(node: Comparison, text: str) -> list[Node]:
    """Return what equals ``text``, or is above it, only because a database pads it with blanks."""
    return [node.like(escape_pattern(text[:at])) for at, character in enumerate(text) if character <= _BLANK]


def _widen(node: Node, conditions: Iterable[Comparison | Membership]) -> Node:
    """Return a filter that finds at least the same, with one more condition for each column of texts."""
    compared = [
        part for one in conditions for part in (_expand(one) if isinstance(one, Membership) else [one])
    ]
    padded = {
        part.column.name.lower(): part.like("% ")
        for part in compared
        if _is_text(part.literal.value) and part.operator not in {Operator.EQUAL, Operator.LIKE}
    }
    if not padded:
        return node
    return Or((map_conditions(node, _widen_condition), *padded.values()))


def _widen_condition(node: Comparison | Membership) -> Node:
    if isinstance(node, Membership):
        changed = [_widen_comparison(one) for one in _expand(node)]
        return node if changed == _expand(node) else join_nodes(And if node.negated else Or, changed)
    return _widen_comparison(node)


def _widen_comparison(node: Comparison) -> Node:
    value = node.literal.value
    if not _is_text(value) or node.operator in {Operator.EQUAL, Operator.LIKE}:
        return node
    doubtful = _WILDCARDS if node.operator is Operator.NOT_EQUAL else _UNITS
    return node.like("%") if doubtful.search(value) or _PADS.search(value) else node
