"""SQL functions of Spark 4, whose body is a query or an expression.

The metastore has them as functions of the class ``sqlFunction.``. Instead of URIs, their files are pieces of JSON, each behind its number of
three digits (``UserDefinedFunction.propertiesToFunctionResources``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from handlers.replication.views.databases import RenamedQuery
from handlers.replication.views.spark import SparkText
from handlers.structs.functions import ResourceUri


if TYPE_CHECKING:
    from handlers.replication.policy.policy import Policy
    from handlers.structs.functions import Function


_CLASS: Final = "sqlFunction."
_BODIES: Final = ("sqlFunction.expression", "sqlFunction.query")
_DIGITS: Final = 3
_PIECE_MAX: Final = 4000 - _DIGITS


def is_sql_function(function: Function) -> bool:
    """Whether the function has a query in place of a class."""
    return function.className == _CLASS


def define_sql_function(function: Function, policy: Policy) -> tuple[list[ResourceUri], RenamedQuery]:
    """Return the pieces that the function has on the target, and its query."""
    pieces = sorted(function.resourceUris or [], key=lambda piece: (piece.uri or "")[:_DIGITS])
    try:
        properties: Any = orjson.loads("".join((piece.uri or "")[_DIGITS:] for piece in pieces))
        body = next(each for each in _BODIES if isinstance(properties.get(each), str))
    except (orjson.JSONDecodeError, AttributeError, StopIteration):
        return pieces, RenamedQuery("", problem="its definition by Spark cannot be read")
    renamed, changed = SparkText(properties[body], properties, prefix="").rename(policy)
    changed[body] = renamed.text
    if changed == properties:
        return pieces, renamed
    text = orjson.dumps(changed).decode()
    parts = [text[start : start + _PIECE_MAX] for start in range(0, len(text), _PIECE_MAX)]
    kind = pieces[0].resourceType
    return [
        ResourceUri(resourceType=kind, uri=f"{number:0{_DIGITS}}{part}") for number, part in enumerate(parts)
    ], renamed
