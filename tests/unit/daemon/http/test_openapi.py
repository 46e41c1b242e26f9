"""The description of the API: complete, valid, and the same as what is served."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from starlette.routing import BaseRoute, Route

from daemon.http.openapi import DOCUMENT, described, openapi_document
from daemon.http.operations import BASE, ApiRoute
from daemon.http.problems import Problem, problem_of
from daemon.status.model import STATUS_FORM
from daemon.waits.routes import wait_route
from state.errors import NotFound, TidelineError
from tests.builders.daemon.assembly import app_of, config_of, parts_of, runtime_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import asked, served
from tests.builders.daemon.loops import daemon_status


@pytest.fixture(scope="module")
def routes() -> Sequence[BaseRoute]:
    """The routes of a daemon with every capability."""
    config = config_of(
        {
            "sources": {"lake": {"metastore": ["thrift://a:9083"], "topic": "t.lake", "read_roots": []}},
            "kafka": {"bootstrap": "kafka:9092"},
            "catalog": {"lake": {"partitions": {"tables": ["*.*"]}}},
            "flat": {"events": {"table": "web.flat", "raw_table": "web.events"}},
        }
    )
    parts = parts_of(config)
    return described(
        [*app_of().routes, wait_route(runtime_of(config).waits, parts.wait_kinds), *parts.routes]
    )


@pytest.fixture(scope="module")
def document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    made = openapi_document(route.operation for route in routes if isinstance(route, ApiRoute))
    plain: dict[str, Any] = json.loads(json.dumps(made))
    return plain


def test_every_route_below_the_base_path_is_described(
    routes: Sequence[BaseRoute], document: dict[str, Any]
) -> None:
    paths = {route.path for route in routes if isinstance(route, Route) and route.path.startswith(BASE)}
    assert set(document["paths"]) == paths - {DOCUMENT}
    assert len(paths) >= 13


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_every_reference_leads_to_a_form(document: dict[str, Any]) -> None:
    prefix = "#/components/schemas/"
    found = {each.removeprefix(prefix) for each in references(document) if each.startswith(prefix)}
    assert found <= set(document["components"]["schemas"])
    assert {"CoverAnswer", "Problem", "DaemonStatus", "FlatTable"} <= found


def test_every_operation_and_parameter_has_a_description(document: dict[str, Any]) -> None:
    identifiers = set()
    for path, operations in document["paths"].items():
        (operation,) = operations.values()
        identifiers.add(operation["operationId"])
        assert operation["summary"].endswith("."), path
        for parameter in operation["parameters"]:
            assert parameter["description"], (path, parameter["name"])
            assert parameter["schema"]["type"] in {"string", "integer", "number", "boolean"}
        further = {"504"} if path.endswith("/wait") else set()
        done = "202" if path.endswith(("/verify", "/bootstrap")) else "200"
        assert {done, "400", "401", "403", "404", "503"} | further == set(operation["responses"])
    assert len(identifiers) == len(document["paths"])


def test_document_and_page_are_served_without_anything_from_elsewhere(routes: Sequence[BaseRoute]) -> None:
    api_routes = [route for route in routes if isinstance(route, Route) and route.path.startswith(BASE)]
    with served(app_of(*api_routes)) as server:
        answer = asked(server.port, DOCUMENT)
        assert json.loads(answer.text)["openapi"] == "3.1.0"
        html = asked(server.port, "/api").text
    assert f"{BASE}/timelines/{{name}}/cover" in html
    assert "http://" not in html
    assert "https://" not in html
    assert "<script>" not in html


def test_a_problem_has_the_members_of_the_standard_and_those_of_the_error() -> None:
    error = NotFound("no such table", hint="List them.", table="a.b")
    assert problem_of(error) == {
        "type": "urn:tideline:error:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "no such table",
        "code": "not-found",
        "message": "no such table",
        "hint": "List them.",
        "context": {"table": "a.b"},
    }
    assert Problem(**problem_of(TidelineError("x"))).status == 503


def test_an_answer_that_the_client_has_already_is_not_sent_again() -> None:
    statuses = [daemon_status()]
    with served(app_of(status=lambda: statuses[-1])) as server:
        first = asked(server.port, f"{BASE}/status")
        check = {"If-None-Match": first.headers["etag"]}
        statuses.append(daemon_status(time_s=daemon_status().time_s + 1))
        again = asked(server.port, f"{BASE}/status", headers=check)
        assert (again.status, again.text) == (304, "")
        statuses.append(daemon_status(state="stopping"))
        changed = asked(server.port, f"{BASE}/status", headers=check)
        assert (changed.status, changed.headers["etag"] != first.headers["etag"]) == (200, True)
    values = json.loads(first.text)
    own = {name: value for name, value in values.items() if name in STATUS_FORM.json_schema()["properties"]}
    assert own.keys() >= {"version", "sources", "projections", "needs_operator"}
    check_form(STATUS_FORM, json.dumps({**own, "sections": {}}))
