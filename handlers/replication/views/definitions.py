"""The definition of a view in its form on the target, as each engine stores it.

* Hive: the expanded text, in which every table has its database, and the text as it was typed, which nothing reads.
* Spark: the text as it was typed, and the current catalog and database of its session as properties (``view.catalogAndNamespace.*``; before
  Spark 3 ``view.default.database``).
* Trino: a comment with JSON in base64, which contains query, catalog and schema (``ViewReaderUtil``, ``ConnectorViewDefinition``).

A view that would read another database than at the source, or none, has a problem (``find_view_obstacle``) and is left out.
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
from handlers.replication.views.tokens import HIVE, SPARK, SPARK_ANSI, TRINO, read_tokens


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.replication.policy import Policy
    from handlers.structs.objects import Table


_SPARK_CATALOG: Final = "spark_catalog"
_PARTS: Final = "view.catalogAndNamespace.numParts"
_PART: Final = "view.catalogAndNamespace.part."
_OLD_NAMESPACE: Final = "view.default.database"
_VERSION: Final = "spark.sql.create.version"
_CONFIG: Final = "view.sqlConfig.spark.sql.ansi."
_TRINO: Final = re.compile(r"/\* Presto (?P<materialized>Materialized )?View: (?P<data>.*) \*/", re.DOTALL)
_ALWAYS_THERE: Final = "default"
"""The database that every metastore has."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """What a view has on the target, and the tables that it reads."""

    original: str | None
    expanded: str | None
    parameters: Mapping[str, str]
    tables: frozenset[tuple[str, str]] = frozenset()
    problem: str | None = None
    """Why the view cannot be read on the target."""


def is_trino_materialized_view(table: Table) -> bool:
    """Whether Trino keeps the rows of the view in an Iceberg table."""
    found = _TRINO.fullmatch(table.viewOriginalText or "")
    return found is not None and found["materialized"] is not None


def define_view(table: Table, policy: Policy) -> ViewDefinition:
    """Return the definition that the view has on the target of ``policy``."""
    parameters = table.parameters or {}
    if _TRINO.fullmatch(table.viewOriginalText or ""):
        return _define_trino(table, policy)
    if any(key in parameters for key in (_PARTS, _OLD_NAMESPACE, _VERSION)):
        return _define_spark(table, policy)
    return _define_hive(table, policy)


def _define_hive(table: Table, policy: Policy) -> ViewDefinition:
    """Only the expanded text decides: the other one names some tables without their database, and nothing reads it."""
    original, expanded = (
        rename_databases(Query(text or "", HIVE, policy.source_db), policy.find_target)
        for text in (table.viewOriginalText, table.viewExpandedText)
    )
    return ViewDefinition(
        table.viewOriginalText and original.text,
        table.viewExpandedText and expanded.text,
        table.parameters or {},
        expanded.tables,
        expanded.problem,
    )


def _define_spark(table: Table, policy: Policy) -> ViewDefinition:
    parameters = dict(table.parameters or {})
    key = _find_namespace_key(parameters)
    namespace = parameters.get(key, "").lower() or None
    quoted = all(
        parameters.get(f"{_CONFIG}{each}") == "true" for each in ("enabled", "doubleQuotedIdentifiers")
    )
    query = Query(
        table.viewExpandedText or "", SPARK_ANSI if quoted else SPARK, namespace, catalog=_SPARK_CATALOG
    )
    renamed = rename_databases(query, policy.find_target)
    if namespace is not None:
        parameters[key] = _rename_namespace(namespace, renamed, policy)
    catalog = parameters.get(f"{_PART}0", _SPARK_CATALOG)
    problem = renamed.problem or _find_spark_problem(query, catalog)
    original = table.viewOriginalText
    if original != table.viewExpandedText and original is not None:
        original = rename_databases(replace(query, text=original), policy.find_target).text
    else:
        original = original and renamed.text
    expanded = table.viewExpandedText and renamed.text
    return ViewDefinition(original, expanded, parameters, renamed.tables, problem)


def _find_namespace_key(parameters: Mapping[str, str]) -> str:
    """Return the property with the current database of the session."""
    return f"{_PART}1" if parameters.get(_PARTS) == "2" else _OLD_NAMESPACE


def _find_spark_problem(query: Query, catalog: str) -> str | None:
    if catalog != _SPARK_CATALOG:
        return f"it was created while {catalog} was the current catalog"
    tokens = read_tokens(query.text, query.dialect)
    if any(token.word == "identifier" and after.text == "(" for token, after in pairwise(tokens)):
        return "its query names a table or function by IDENTIFIER(...)"
    return None


def _rename_namespace(namespace: str, query: RenamedQuery, policy: Policy) -> str:
    """Return the current database that a view has on the target; one that no table of the query is in need not be there."""
    if query.namespaces:
        return min(query.namespaces)
    target = policy.find_target(namespace, None)
    if target is not None:
        return target
    return namespace if namespace == _ALWAYS_THERE and policy.keeps_name else policy.target_db


def _define_trino(table: Table, policy: Policy) -> ViewDefinition:
    text = table.viewOriginalText or ""
    found = _TRINO.fullmatch(text)
    assert found is not None, text
    unchanged = ViewDefinition(text, table.viewExpandedText, table.parameters or {})
    try:
        view = orjson.loads(base64.b64decode(found["data"], validate=True))
        sql = view["originalSql"]
        catalog, schema = (str(view.get(key) or "").lower() or None for key in ("catalog", "schema"))
    except (binascii.Error, orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        return replace(unchanged, problem=f"its definition by Trino cannot be read ({error})")
    if not isinstance(sql, str):
        return replace(unchanged, problem="its definition by Trino has no query")
    renamed = rename_databases(Query(sql, TRINO, schema, catalog), policy.find_target)
    changed: dict[str, Any] = {**view, "originalSql": renamed.text}
    if schema is not None:
        changed["schema"] = _rename_namespace(schema, renamed, policy)
    if isinstance(view.get("path"), list):
        changed["path"] = [_rename_path(each, policy) for each in view["path"]]
    if changed != view:
        data = base64.b64encode(orjson.dumps(changed)).decode()
        text = text.replace(found["data"], data)
    return ViewDefinition(
        text, table.viewExpandedText, table.parameters or {}, renamed.tables, renamed.problem
    )


def _rename_path(entry: Any, policy: Policy) -> Any:
    """Return a schema in which functions are searched."""
    if not isinstance(entry, dict) or not isinstance(entry.get("schemaName"), str):
        return entry
    name = entry["schemaName"].lower()
    return {**entry, "schemaName": policy.find_target(name, None) or entry["schemaName"]}
