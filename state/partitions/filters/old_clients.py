"""Translates the filters of clients of Hive 2 and 3 into the grammar of Hive 4.

Hive 4 reads three things in another way, the first of them silently:

- LIKE: old clients write ``.*`` and ``.``, Hive 4 reads ``%`` and ``_``. ``ds like "2024.*"`` finds nothing.
- Columns named ``date``, ``timestamp``, ``is``, ``true`` or ``false``: Hive 4 requires backquotes.
- Texts that Spark writes although no Hive version can read them: those that end in a backslash, and patterns with double quotes.

Spark writes texts into patterns without escaping them, so its ``.`` means a dot and Hive's any character. The translation matches
both; Spark checks every partition again. Whether a pattern is one of old clients shows in its form, because clients such as Spark
connect again at any time: only old ones write ``.*``.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from state.errors import BadFilter, LimitExceeded
from state.partitions.filters.dialect import HIVE_2, HIVE_4, UNESCAPED_HIVE_2, LikeDialect
from state.partitions.filters.filter_text import escape_pattern, is_writable, write_filter, write_pattern
from state.partitions.filters.like_pattern import parse_pattern
from state.partitions.filters.parser import parse_filter
from state.partitions.filters.syntax_tree import (
    FLIPPED,
    Comparison,
    Membership,
    Node,
    Operator,
    Or,
    join_nodes,
    map_conditions,
)


ALL: Final = ""
"""The filter that every partition matches."""
_ANY: Final = ".*"
_JOINED: Final = re.compile(r"""\blike\s+(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")\s*["']""", re.DOTALL)
_QUOTED_TWICE: Final = re.compile(r"\blike\s+(?:'[^']*\"|\"\.\*)")
"""Spark puts double quotes around a pattern, even if the text contains some: ``like '5".*"``, ``like ".*5".*"``, ``like ".*5"'``."""


class ClientVersion(Enum):
    """What is known of the client that wrote a filter."""

    UNKNOWN = auto()
    OLD = auto()
    """Hive 2 or 3."""
    NEW = auto()
    """Hive 4."""


def translate_filter(text: str, client: ClientVersion = ClientVersion.UNKNOWN) -> str:
    """Return the filter as Hive 4 reads it; a filter that cannot be read, and one that means the same, are returned unchanged."""
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
    """Return the patterns of SQL that together match what the pattern's author may have meant."""
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
    """Compare with a text that ends in a backslash, which only LIKE can express; ``<`` and ``!=`` match more than they must."""
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
