"""The definition of a view or SQL function in its form on the target, as each engine stores it.

* Hive: the expanded text, in which every table has its database, and the text as it was typed, which nothing
  reads.
* Spark: the text as it was typed, and properties that complete its names: the current catalog and database of
  the session that created it, ``view.catalogAndNamespace.*`` (before Spark 3 ``view.default.database``).
* Trino: a comment with JSON in base64, which contains query, catalog and schema (``ViewReaderUtil``,
  ``ConnectorViewDefinition``).

The body of a SQL function of Spark 4 is a query or an expression, with the same properties without ``view.``.
The metastore has it as a function of the class ``sqlFunction.``. Instead of URIs, its files are pieces of
JSON, each behind its number of three digits (``UserDefinedFunction.propertiesToFunctionResources``).

A view or function that would read a different database than at the source, or none, has a problem
(``find_view_obstacle``) and is left out.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import orjson

from handlers.replication.views.databases import Query, RenamedQuery, rename_databases
from handlers.replication.views.names import HIVE, SPARK, SPARK_ANSI, TRINO, read_tokens
from handlers.structs.objects import ResourceUri


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.replication.policy.policy import Policy
    from handlers.structs.objects import Function, Table


_SPARK: Final = ("view.catalogAndNamespace.numParts", "view.default.database", "spark.sql.create.version")
"""Properties of views of Spark; each version has one of them."""
_TRINO: Final = re.compile(r"/\* Presto (?P<materialized>Materialized )?View: (?P<data>.*) \*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view's definition on the target, and its query there."""

    original: str | None
    expanded: str | None
    parameters: Mapping[str, str]
    query: RenamedQuery


def is_trino_materialized_view(table: Table) -> bool:
    """Whether Trino keeps the rows of the view in an Iceberg table."""
    match = _TRINO.fullmatch(table.viewOriginalText or "")
    return match is not None and match["materialized"] is not None


def define_view(table: Table, policy: Policy) -> ViewDefinition:
    """Return the definition that the view has on the target of ``policy``."""
    parameters = table.parameters or {}
    if _TRINO.fullmatch(table.viewOriginalText or ""):
        return _define_trino(table, policy)
    if any(key in parameters for key in _SPARK):
        return _define_spark(table, policy)
    return _define_hive(table, policy)


def _define_hive(table: Table, policy: Policy) -> ViewDefinition:
    """Rename databases in the expanded text only. Nothing reads the typed text, in which some tables have
    no database.
    """
    original, expanded = (
        rename_databases(Query(text or "", HIVE, policy.source_db), policy.find_target)
        for text in (table.viewOriginalText, table.viewExpandedText)
    )
    return ViewDefinition(
        table.viewOriginalText and original.text,
        table.viewExpandedText and expanded.text,
        table.parameters or {},
        expanded,
    )


def _define_spark(table: Table, policy: Policy) -> ViewDefinition:
    """Rename databases in both fields, because Spark stores the same text twice."""
    expanded = table.viewExpandedText or ""
    renamed, parameters = SparkText(expanded, table.parameters or {}, "view.").rename(policy)
    original = table.viewOriginalText
    if original == expanded:
        original = renamed.text
    elif original is not None:
        original = SparkText(original, table.parameters or {}, "view.").rename(policy)[0].text
    return ViewDefinition(original, table.viewExpandedText and renamed.text, parameters, renamed)


def _define_trino(table: Table, policy: Policy) -> ViewDefinition:
    text = table.viewOriginalText or ""
    match = _TRINO.fullmatch(text)
    assert match is not None, text
    unreadable = RenamedQuery("", problem="its definition by Trino cannot be read")
    unchanged = ViewDefinition(text, table.viewExpandedText, table.parameters or {}, unreadable)
    try:
        view = orjson.loads(base64.b64decode(match["data"], validate=True))
        sql = view["originalSql"]
        catalog, schema = (str(view.get(key) or "").lower() or None for key in ("catalog", "schema"))
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return unchanged
    if not isinstance(sql, str):
        return unchanged
    renamed = rename_databases(Query(sql, TRINO, schema, catalog), policy.find_target)
    changed: dict[str, Any] = {**view, "originalSql": renamed.text}
    if schema is not None:
        changed["schema"] = rename_namespace(schema, renamed, policy)
    if isinstance(view.get("path"), list):
        changed["path"] = [_rename_path(each, policy) for each in view["path"]]
    if changed != view:
        data = base64.b64encode(orjson.dumps(changed)).decode()
        text = text.replace(match["data"], data)
    return ViewDefinition(text, table.viewExpandedText, table.parameters or {}, renamed)


def _rename_path(entry: Any, policy: Policy) -> Any:
    """Return a schema in which functions are searched."""
    if not isinstance(entry, dict) or not isinstance(entry.get("schemaName"), str):
        return entry
    name = entry["schemaName"].lower()
    return {**entry, "schemaName": policy.find_target(name, None) or entry["schemaName"]}


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
        """Return the text and the properties in the form that they have on the target of ``policy``."""
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
            return "it was created with several current databases"
        tokens = read_tokens(query.text, query.dialect)
        if any(token.word == "identifier" and after.text == "(" for token, after in pairwise(tokens)):
            return "its query names a table or function by IDENTIFIER(...)"
        return None


def rename_namespace(namespace: str, query: RenamedQuery, policy: Policy) -> str:
    """Return the current database that a query has on the target; it need not exist there if the query
    reads no table in it.
    """
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
    """Whether a query defines the function, instead of a Java class."""
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
