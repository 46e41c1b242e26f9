"""SQL functions of Spark, which name databases as views do, and functions that views call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handlers.replication.policy.policy import Policy
from handlers.replication.views.definitions import define_sql_function, is_sql_function
from handlers.replication.views.obstacles import find_function_obstacle, find_source_obstacle
from handlers.structs.objects import Function, ResourceType, ResourceUri, StorageDescriptor, Table
from state.errors import NotFound


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r")


class Source:
    """A source with these functions, and no tables."""

    def __init__(self, **functions: Function) -> None:
        self._functions = functions

    def function_names(self, db: str) -> list[str]:
        if db == "gone":
            raise NotFound("no such database")
        return list(self._functions)

    def get_function(self, _db: str, name: str) -> Function:
        return self._functions[name]

    def get_tables(self, _db: str, _names: list[str]) -> list[Table]:
        return []


def sql_function(body: str, **properties: str) -> Function:
    definition = {
        "sqlFunction.expression": body,
        "sqlFunction.returnType": "INT",
        "catalogAndNamespace.numParts": "2",
        "catalogAndNamespace.part.0": "spark_catalog",
        "catalogAndNamespace.part.1": "shop",
        **properties,
    }
    return of_pieces(json.dumps(definition), 60)


def of_pieces(text: str, length: int) -> Function:
    parts = [text[start : start + length] for start in range(0, len(text), length)]
    pieces = [
        ResourceUri(resourceType=ResourceType.FILE, uri=f"{number:03}{part}")
        for number, part in enumerate(parts)
    ]
    return Function(functionName="f", dbName="shop", className="sqlFunction.", resourceUris=pieces[::-1])


def a_function(*uris: str) -> Function:
    resources = [ResourceUri(resourceType=ResourceType.JAR, uri=uri) for uri in uris]
    return Function(functionName="f", dbName="shop", className="com.shop.F", resourceUris=resources)


def read(pieces: list[ResourceUri]) -> dict[str, str]:
    assert [(each.uri or "")[:3] for each in pieces] == [f"{number:03}" for number in range(len(pieces))]
    return dict(json.loads("".join((each.uri or "")[3:] for each in pieces)))


# B008: never changed
def find(function: Function, source: Any = Source(), **policy: Any) -> str | None:  # noqa: B008
    chosen = Policy(name="shop", source_db="shop", target_db="shop_r", **policy)
    return find_function_obstacle(function, chosen, source)


def test_the_body_and_the_database_of_the_session_are_those_of_the_target() -> None:
    function = sql_function("x + (select max(o.id) from shop.orders o join items)", long="é" * 5000)
    pieces, renamed = define_sql_function(function, POLICY)
    found = read(pieces)
    assert is_sql_function(function)
    assert found["sqlFunction.expression"] == "x + (select max(o.id) from shop_r.orders o join items)"
    assert (found["catalogAndNamespace.part.1"], found["long"]) == ("shop_r", "é" * 5000)
    assert [len(each.uri or "") for each in pieces] == [4000, len(pieces[1].uri or "")], "the column's limit"
    assert renamed.tables == {("shop", "orders"), ("shop", "items")}


def test_a_function_that_names_no_database_keeps_its_pieces() -> None:
    function = sql_function("x + 1")
    same = Policy(name="same", source_db="shop", target_db="shop")
    assert define_sql_function(function, same)[0] == (function.resourceUris or [])[::-1]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (sql_function("(select 1 from elsewhere.t)"), "it reads elsewhere.t"),
        (sql_function("1", **{"catalogAndNamespace.part.0": "ice"}), "while ice was the current catalog"),
        (sql_function("1", **{"function.resolutionPath": "[]"}), "several current databases"),
        (of_pieces("{", 10), "cannot be read"),
        (of_pieces("[]", 10), "cannot be read"),
        (a_function("file:/a.jar"), "functions_dir"),
        (a_function("ivy://a:b:1"), None),
        (a_function(), None),
        (sql_function("shop.f(1)"), None),
    ],
)
def test_a_function_that_cannot_be_used_on_the_target_has_an_obstacle(
    function: Function, reason: str | None
) -> None:
    found = find(function)
    assert found is None if reason is None else reason in (found or "")


def test_a_function_with_files_needs_a_directory_for_them() -> None:
    assert find(a_function("file:/a.jar"), functions_dir="file:/functions") is None


@pytest.mark.parametrize(
    ("query", "namespace", "reason"),
    [
        (
            "select shop.f(1), upper('a')",
            "shop",
            "it calls shop.f, which is not replicated: the policy has no",
        ),
        ("select f(1)", "shop", "it calls shop.f, which is not replicated: the policy has no"),
        ("select f(1)", "elsewhere", "it calls elsewhere.f, which is not replicated to this target"),
        ("select f(1)", "gone", None),
        ("select g(1), 'f(1)', 1 in (2)", "elsewhere", None),
    ],
)
def test_a_view_that_calls_a_function_that_is_left_out_is_left_out(
    query: str, namespace: str, reason: str | None
) -> None:
    parameters = {"view.default.database": namespace}
    view = Table(tableName="v", dbName="shop", sd=StorageDescriptor(), tableType="VIRTUAL_VIEW")
    view.viewOriginalText = view.viewExpandedText = query
    view.parameters = parameters
    source: Any = Source(f=a_function("file:/a.jar"))
    obstacle = find_source_obstacle(view, POLICY, source)
    assert (None if obstacle is None else obstacle.reason.startswith(reason or "?")) == (
        None if reason is None else True
    )


def test_the_search_ends_if_functions_call_each_other() -> None:
    function = sql_function("shop.f(1)")
    assert find(function, Source(f=function)) is None
