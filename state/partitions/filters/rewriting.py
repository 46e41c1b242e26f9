"""Rewrites filters for a metastore of Hive 4: those of old clients (``translate_filter``), and those that a
database would evaluate differently.

Hive 4 reads filters of Hive 2 and 3 clients differently in three cases. Only the first fails silently:

- LIKE: old clients write ``.*`` and ``.``, Hive 4 reads ``%`` and ``_``. ``ds like "2024.*"`` finds nothing.
- Columns named ``date``, ``timestamp``, ``is``, ``true`` or ``false``: Hive 4 requires backquotes.
- Texts that Spark writes although no Hive version can read them: those that end in a backslash, and patterns
  with double quotes.

Spark writes texts into patterns without escaping them, so its ``.`` means a dot and Hive's any character. The
translation matches both; Spark checks every partition again. The form of a pattern shows whether an old
client wrote it, because only old clients write ``.*``. Knowledge about a connection is not enough: clients
such as Spark connect again at any time.

Readers compare texts by their bytes. A metastore's comparisons differ in ways that lose partitions
(``compare_by_bytes``):

- Derby and MySQL pad texts with blanks: ``'a '`` equals ``'a'``, so ``s != 'a'`` does not find it. PostgreSQL
  does not pad.
- Derby compares UTF-16 units, in which characters beyond U+FFFF come before U+E000.
- Hive 4.1 and later compare names as well. ``s != 'x_y'`` reads ``_`` and ``%`` as wildcards, and ``hr = 7``
  does not find ``hr=07``.

On a database that compares bytes, the rewritten filter finds the same partitions. It uses LIKE, which never
pads. Extra matches of a database remain: ``s = 'a'`` may find ``'a '``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, TypeGuard

from state.errors import BadFilter, LimitExceeded
from state.partitions.filters.dialect import HIVE_2, HIVE_4, UNESCAPED_HIVE_2, LikeDialect
from state.partitions.filters.like_pattern import parse_pattern
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
    escape_pattern,
    is_writable,
    join_nodes,
    map_conditions,
    write_filter,
    write_pattern,
)
from state.partitions.keys.values import DEFAULT_PARTITION


ALL: Final = ""
"""The filter that every partition matches."""
_ANY: Final = ".*"
_JOINED: Final = re.compile(r"""\blike\s+(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")\s*["']""", re.DOTALL)
_QUOTED_TWICE: Final = re.compile(r"\blike\s+(?:'[^']*\"|\"\.\*)")
"""Spark puts double quotes around a pattern, even if the text contains some: ``like '5".*"``,
``like ".*5".*"``, ``like ".*5"'``."""
REWRITTEN_MAX: Final = 64
"""Conditions up to which a rewritten filter is exact; Derby takes minutes to plan more."""
_MAY_DIFFER: Final = re.compile(r"[<>!=]|\bnot\b|\bin\b|\bbetween\b", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{1,4}-\d{1,2}-\d{1,2}(?: .*)?", re.DOTALL)
"""Texts for comparison with a column of dates or timestamps; LIKE does not apply to these."""
_WILDCARDS: Final = re.compile(r"[%_\\]")
_LOW, _HIGH = "\ue000", "\uffff"
_BEYOND: Final = "\U00010000"
_BLANK: Final = " "
_UNITS: Final = re.compile("[\ue000-\U0010ffff]")
_PADS: Final = re.compile(r"[\x00-\x20]")
_BELOW: Final = frozenset({Operator.LESS, Operator.LESS_OR_EQUAL})


class ClientVersion(Enum):
    """Properties of the client that wrote a filter."""

    UNKNOWN = auto()
    OLD = auto()
    """Hive 2 or 3."""
    NEW = auto()
    """Hive 4."""


def translate_filter(text: str, client: ClientVersion = ClientVersion.UNKNOWN) -> str:
    """Return the filter in the language of Hive 4, unchanged if it is unreadable or has the same meaning
    there.
    """
    if client is ClientVersion.NEW:
        return text
    if _ANY in text and _JOINED.search(text):
        return ALL
    for dialect in (HIVE_4, HIVE_2, UNESCAPED_HIVE_2):
        try:
            node = parse_filter(text, dialect)
            if node is None:
                return text
            translation = map_conditions(node, lambda one: _translate(one, client))
            return text if translation == node and dialect is HIVE_4 else write_filter(translation)
        except BadFilter:
            continue
        except LimitExceeded:
            return text
    return ALL if _QUOTED_TWICE.search(text) else text


def _translate(node: Comparison | Membership, client: ClientVersion) -> Node:
    if isinstance(node, Membership):
        return node
    text = node.literal.value
    if not isinstance(text, str) or (node.operator is Operator.LIKE and node.reversed):
        return node  # the metastore refuses a pattern on the left
    if node.operator is Operator.LIKE:
        patterns = translate_pattern(text, client)
        return node if patterns == (text,) else join_nodes(Or, [node.like(one) for one in patterns])
    return _compare_backslash(node, text) if text.endswith("\\") and not is_writable(text) else node


def translate_pattern(pattern: str, client: ClientVersion = ClientVersion.UNKNOWN) -> tuple[str, ...]:
    """Return the patterns of SQL that together match every possible intention of the pattern's author."""
    is_old = client is ClientVersion.OLD and "." in pattern
    if _ANY not in pattern and not is_old:
        return (pattern,)
    readings = [write_pattern(parse_pattern(pattern, LikeDialect.REGEX))]
    if "\\" in pattern:
        readings.append(_read_as_spark(pattern))
    if pattern.startswith("%") or pattern.endswith("%") or _ANY not in pattern:
        readings.append(pattern)
    return tuple(dict.fromkeys(one if is_writable(one) else one.replace('"', "_") for one in readings))


def _read_as_spark(pattern: str) -> str:
    """Return the pattern for which only ``.*`` at either end is a wildcard."""
    inner = pattern.removeprefix(_ANY).removesuffix(_ANY)
    start, end = pattern.startswith(_ANY), pattern.endswith(_ANY)
    return "%" * start + escape_pattern(inner) + "%" * end


def _compare_backslash(node: Comparison, text: str) -> Node:
    """Compare with a text that ends in a backslash, which only LIKE can express;
    ``<`` and ``!=`` match more than they must.
    """
    next_text, pattern = text[:-1] + chr(ord("\\") + 1), escape_pattern(text)
    match FLIPPED[node.operator] if node.reversed else node.operator:
        case Operator.EQUAL:
            return node.like(pattern)
        case Operator.NOT_EQUAL:
            return node.like("%")
        case Operator.GREATER:
            return Or((node.by(Operator.GREATER_OR_EQUAL, next_text), node.like(pattern + "_%")))
        case Operator.GREATER_OR_EQUAL:
            return Or((node.by(Operator.GREATER_OR_EQUAL, next_text), node.like(pattern + "%")))
        case _:
            return node.by(Operator.LESS, next_text)


def compare_by_bytes(text: str, *, may_widen: bool = True) -> str:
    """Return the rewritten filter, or ``text`` if a rewrite is unnecessary or impossible.

    A filter of more than ``REWRITTEN_MAX`` conditions becomes wider instead, with few further conditions: it
    finds more than necessary. Without ``may_widen`` it stays unchanged.
    """
    if not _MAY_DIFFER.search(text):
        return text
    try:
        node = parse_filter(text, HIVE_4)
        assert node is not None, "the text is not empty"
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
    """Return conditions for values that are above ``text`` by their bytes, but perhaps not for a database:
    texts that begin with ``text``, and those with characters beyond U+FFFF.
    """
    surrogates = [
        _between(node, text[:at] + _BEYOND, text[:at] + _LOW, Operator.LESS)
        for at, character in enumerate(text)
        if _LOW <= character <= _HIGH
    ]
    return [node.like(f"{escape_pattern(text)}_%"), *surrogates]


def _add_below(node: Comparison, text: str) -> list[Node]:
    """Return conditions for values that are below ``text`` by their bytes, but perhaps not for a database."""
    high = [
        _between(node, text[:at] + _LOW, text[:at] + _HIGH, Operator.LESS_OR_EQUAL)
        for at, character in enumerate(text)
        if character > _HIGH
    ]
    return [*_shorter(node, text), *high]


def _between(node: Comparison, low: str, high: str, to: Operator) -> Node:
    return And((node.by(Operator.GREATER_OR_EQUAL, low), node.by(to, high)))


def _shorter(node: Comparison, text: str) -> list[Node]:
    """Return conditions for values that equal ``text``, or are above it, only because a database pads them
    with blanks.
    """
    return [node.like(escape_pattern(text[:at])) for at, character in enumerate(text) if character <= _BLANK]


def _widen(node: Node, conditions: Iterable[Comparison | Membership]) -> Node:
    """Return a filter that finds at least the same partitions, with one more condition for each column of
    texts.
    """
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
    operator = _operator(node)
    doubtful = _WILDCARDS if operator is Operator.NOT_EQUAL else _UNITS
    if doubtful.search(value) or _PADS.search(value):
        return node.like("%")
    if operator in _BELOW or operator is Operator.NOT_EQUAL:
        return node
    lower = _lower(value)
    return node.like("%") if lower is None else node.by(operator, lower)


def _lower(text: str) -> str | None:
    """Return a text that is below all texts that ``text`` begins, on every database; None if there is none.

    If a database pads, a text that continues with a character below the blank is below its own beginning.
    """
    if not text:
        return None
    lower = text[:-1] + chr(ord(text[-1]) - 1)
    return lower if is_writable(lower) and not (_UNITS.search(lower) or _DATE.fullmatch(lower)) else None
