"""Views as Spark, Trino and Hive store them, on a target with other names."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import MATERIALIZED_VIEW
from handlers.replication.views.definitions import ViewDefinition, define_view
from handlers.replication.views.obstacles import find_source_obstacle
from handlers.structs.objects import StorageDescriptor, Table


LAKE = Policy(name="lake", source_db="lake", target_db="lake_r")
POLICY = Policy(
    name="shop",
    source_db="shop",
    target_db="shop_r",
    exclude=("secret",),
    others=lambda db: (LAKE,) if db == "lake" else (),
)
SAME = Policy(name="same", source_db="shop", target_db="shop")
NO_SOURCE: Any = None


def spark_view(text: str, namespace: str = "shop", catalog: str = "spark_catalog", **more: str) -> Table:
    parameters = {
        "view.catalogAndNamespace.numParts": "2",
        "view.catalogAndNamespace.part.0": catalog,
        "view.catalogAndNamespace.part.1": namespace,
        "view.query.out.col.0": "shop",
        "view.referredTempViewNames": "[]",
        "spark.sql.create.version": "4.0.0",
        **more,
    }
    return a_view(text, text, parameters)


def a_view(original: str | None, expanded: str | None, parameters: dict[str, str] | None = None) -> Table:
    return Table(
        tableName="v",
        dbName="shop",
        sd=StorageDescriptor(),
        tableType="VIRTUAL_VIEW",
        parameters=parameters,
        viewOriginalText=original,
        viewExpandedText=expanded,
    )


def trino_view(sql: str, kind: str = "View", **fields: object) -> Table:
    view = {
        "originalSql": sql,
        "catalog": "hive",
        "schema": "shop",
        "columns": [{"name": "id", "type": "integer"}],
        "owner": "shop",
        "runAsInvoker": False,
        "path": [{"catalogName": "hive", "schemaName": "shop"}],
        **fields,
    }
    text = base64.b64encode(json.dumps(view).encode()).decode()
    parameters = {"presto_view": "true", "trino_version": "476", "comment": "Presto View"}
    return a_view(f"/* Presto {kind}: {text} */", f"/* Presto {kind} */", parameters)


def read_trino(view: ViewDefinition) -> dict[str, Any]:
    assert view.original is not None
    text = view.original.removeprefix("/* Presto View: ").removesuffix(" */")
    return dict(json.loads(base64.b64decode(text)))


@pytest.mark.parametrize(
    ("query", "namespace", "on_target", "namespace_on_target"),
    [
        (
            "select o.id from shop.orders o join items",
            "shop",
            "select o.id from shop_r.orders o join items",
            "shop_r",
        ),
        ("select id from orders join shop.t", "lake", "select id from orders join shop_r.t", "lake_r"),
        ("select id from shop.orders", "default", "select id from shop_r.orders", "shop_r"),
        ("select id from shop.orders", "elsewhere", "select id from shop_r.orders", "shop_r"),
    ],
)
def test_spark_reads_query_and_namespace_of_the_target(
    query: str, namespace: str, on_target: str, namespace_on_target: str
) -> None:
    table = spark_view(query, namespace)
    view = define_view(table, POLICY)
    assert (view.original, view.expanded, view.query.problem) == (on_target, on_target, None)
    changed = {"view.catalogAndNamespace.part.1": namespace_on_target}
    assert view.parameters == {**(table.parameters or {}), **changed}


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (spark_view("select 1 from orders", "elsewhere"), "reads elsewhere.orders"),
        (spark_view("select 1 from shop.secret"), "reads shop.secret"),
        (spark_view("select 1 from shop.orders", catalog="ice"), "while ice was the current catalog"),
        (spark_view("select 1 from identifier('shop.orders')"), "IDENTIFIER"),
        (trino_view("SELECT 1 FROM pg.shop.orders"), "names the catalog pg"),
        (trino_view("SELECT 1 FROM orders", schema=None), "without a database name"),
        (trino_view("SELECT 1 FROM nation", schema="tiny", catalog="tpch"), "reads tiny.nation"),
        (a_view("/* Presto View: e30= */", None), "cannot be read"),
        (a_view("/* Presto View: ??? */", None), "cannot be read"),
        (a_view(None, "select 1 from `elsewhere`.`t`"), "reads elsewhere.t"),
    ],
)
def test_a_view_that_cannot_be_read_on_the_target_has_an_obstacle(table: Table, problem: str) -> None:
    obstacle = find_source_obstacle(table, POLICY, NO_SOURCE)
    assert obstacle is not None
    assert obstacle.code == "view"
    assert problem in obstacle.reason


def test_trino_reads_query_schema_and_path_of_the_target() -> None:
    table = trino_view("SELECT o.id\nFROM\n  (shop.orders o\nCROSS JOIN hive.lake.days d)\n")
    view = define_view(table, POLICY)
    found = read_trino(view)
    assert found["originalSql"] == "SELECT o.id\nFROM\n  (shop_r.orders o\nCROSS JOIN hive.lake_r.days d)\n"
    assert found["schema"] == "shop_r"
    assert found["path"] == [{"catalogName": "hive", "schemaName": "shop_r"}]
    assert (found["owner"], found["catalog"], view.query.problem) == ("shop", "hive", None)
    assert (view.expanded, view.parameters) == ("/* Presto View */", table.parameters)


def test_a_materialized_view_of_trino_is_left_out() -> None:
    table = trino_view("SELECT 1", kind="Materialized View")
    assert find_source_obstacle(table, POLICY, NO_SOURCE) == MATERIALIZED_VIEW


@pytest.mark.parametrize(
    "table",
    [
        trino_view("SELECT 1 FROM shop.orders, items"),
        spark_view("select 1 from shop.orders", "default"),
        spark_view("select 1 from shop.orders join items", "shop"),
        a_view("select 1 from shop.t", "select 1 from `shop`.`t`"),
        a_view(None, "select 1 from `sys`.`tbls`"),
    ],
)
def test_nothing_changes_if_the_names_are_the_same(table: Table) -> None:
    view = define_view(table, SAME)
    assert (view.original, view.expanded) == (table.viewOriginalText, table.viewExpandedText)
    assert (view.parameters, view.query.problem) == (table.parameters or {}, None)


def test_older_spark_versions_name_the_database_of_the_session_otherwise() -> None:
    parameters = {"view.default.database": "shop", "spark.sql.create.version": "2.4.8"}
    view = define_view(a_view("select 1 from t", "select 1 from t", parameters), POLICY)
    assert view.parameters["view.default.database"] == "shop_r"


def test_the_typed_text_of_hive_decides_nothing() -> None:
    view = define_view(a_view("select 1 from t, gone.u, shop.v", "select 1 from `shop`.`t`"), POLICY)
    assert view.original == "select 1 from t, gone.u, shop_r.v"
    assert view.query.problem is None
