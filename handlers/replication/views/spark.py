"""Text that Spark stores as it was typed, of views and of SQL functions, with properties that complete its names.

The properties are the current catalog and database of the session that created it: ``view.catalogAndNamespace.*`` of views
(before Spark 3 ``view.default.database``), and the same without ``view.`` of functions.

The body of a SQL function of Spark 4 is a query or an expression. The metastore has it as a function of the class
``sqlFunction.``. Instead of URIs, its files are pieces of JSON, each behind its number of three digits
(``UserDefinedFunction.propertiesToFunctionResources``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import orjson

from handlers.replication.views.databases import Query, RenamedQuery, rename_databases
from handlers.replication.views.tokens import SPARK, SPARK_ANSI, read_tokens
from handlers.structs.functions import ResourceUri


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.replication.policy.policy import Policy
    from handlers.structs.functions import Function


CATALOG: Final = "spark_catalog"
_OLD_NAMESPACE: Final = "view.default.database"
_ANSI: Final = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
_PATHS: Final = ("view.resolutionPath", "function.resolutionPath")
"""Databases in which the names without one are searched, in later versions."""
_ALWAYS_THERE: Final = "default"
"""The database that every metastore has."""


@dataclass(frozen=True, slots=True)
class SparkText:
    """A text with its properties, whose names start with ``prefix``."""

    text: str
    properties: Mapping[str, str]
    prefix: str

    def rename(self, policy: Policy) -> tuple[RenamedQuery, dict[str, str]]:
        """Return the text and the properties that the target of ``policy`` has."""
        query = self._read()
        renamed = rename_databases(query, policy.find_target)
        properties = dict(self.properties)
        if query.namespace is not None:
            properties[self._namespace_key] = rename_namespace(query.namespace, renamed, policy)
        return replace(renamed, problem=renamed.problem or self._find_problem(query)), properties

    def _read(self) -> Query:
        config = f"{self.prefix}sqlConfig."
        quoted = all(self.properties.get(f"{config}{each}") == "true" for each in _ANSI)
        namespace = self.properties.get(self._namespace_key, "").lower() or None
        return Query(self.text, SPARK_ANSI if quoted else SPARK, namespace, CATALOG)

    @property
    def _namespace_key(self) -> str:
        """The property with the current database of the session."""
        parts = f"{self.prefix}catalogAndNamespace."
        return f"{parts}part.1" if self.properties.get(f"{parts}numParts") == "2" else _OLD_NAMESPACE

    def _find_problem(self, query: Query) -> str | None:
        catalog = self.properties.get(f"{self.prefix}catalogAndNamespace.part.0", CATALOG)
        if catalog != CATALOG:
            return f"it was created while {catalog} was the current catalog"
        if any(self.properties.get(each) for each in _PATHS):
            return "it was created with a path of databases"
        tokens = read_tokens(query.text, query.dialect)
        if any(token.word == "identifier" and after.text == "(" for token, after in pairwise(tokens)):
            return "its query names a table or function by IDENTIFIER(...)"
        return None


def rename_namespace(namespace: str, query: RenamedQuery, policy: Policy) -> str:
    """Return the current database that a query has on the target; one that no table of the query is in need not be there."""
    if query.namespaces:
        return min(query.namespaces)
    target = policy.find_target(namespace, None)
    if target is not None:
        return target
    return namespace if namespace == _ALWAYS_THERE and policy.keeps_name else policy.target_db


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
