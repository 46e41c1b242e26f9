"""The definition of a view in its form on the target, as each engine stores it.

* Hive: the expanded text, in which every table has its database, and the text as it was typed, which nothing reads.
* Spark: the text as it was typed, and properties (``spark``).
* Trino: a comment with JSON in base64, which contains query, catalog and schema (``ViewReaderUtil``, ``ConnectorViewDefinition``).

A view that would read another database than at the source, or none, has a problem (``find_view_obstacle``) and is left out.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from handlers.replication.views.databases import Query, RenamedQuery, rename_databases
from handlers.replication.views.spark import SparkText, rename_namespace
from handlers.replication.views.tokens import HIVE, TRINO


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.replication.policy.policy import Policy
    from handlers.structs.objects import Table


_SPARK: Final = ("view.catalogAndNamespace.numParts", "view.default.database", "spark.sql.create.version")
"""Properties of views of Spark; each version has one of them."""
_TRINO: Final = re.compile(r"/\* Presto (?P<materialized>Materialized )?View: (?P<data>.*) \*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """What a view has on the target, and its query there."""

    original: str | None
    expanded: str | None
    parameters: Mapping[str, str]
    query: RenamedQuery


def is_trino_materialized_view(table: Table) -> bool:
    """Whether Trino keeps the rows of the view in an Iceberg table."""
    found = _TRINO.fullmatch(table.viewOriginalText or "")
    return found is not None and found["materialized"] is not None


def define_view(table: Table, policy: Policy) -> ViewDefinition:
    """Return the definition that the view has on the target of ``policy``."""
    parameters = table.parameters or {}
    if _TRINO.fullmatch(table.viewOriginalText or ""):
        return _define_trino(table, policy)
    if any(key in parameters for key in _SPARK):
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
        expanded,
    )


def _define_spark(table: Table, policy: Policy) -> ViewDefinition:
    """Spark stores the same text twice."""
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
    found = _TRINO.fullmatch(text)
    assert found is not None, text
    unreadable = RenamedQuery("", problem="its definition by Trino cannot be read")
    unchanged = ViewDefinition(text, table.viewExpandedText, table.parameters or {}, unreadable)
    try:
        view = orjson.loads(base64.b64decode(found["data"], validate=True))
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
        text = text.replace(found["data"], data)
    return ViewDefinition(text, table.viewExpandedText, table.parameters or {}, renamed)


def _rename_path(entry: Any, policy: Policy) -> Any:
    """Return a schema in which functions are searched."""
    if not isinstance(entry, dict) or not isinstance(entry.get("schemaName"), str):
        return entry
    name = entry["schemaName"].lower()
    return {**entry, "schemaName": policy.find_target(name, None) or entry["schemaName"]}
