"""The description of the API: the OpenAPI 3.1 document.

It follows from the operations of the routes, so it cannot differ from the served API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from daemon.http.endpoints import made_response, make_json
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.problems import PROBLEM, Problem
from daemon.terminal.application import version_text


DOCUMENT: Final = f"{BASE}/openapi.json"
_REFERENCE: Final = "#/components/schemas/{model}"
_PROBLEMS: Final = {
    "400": "The request cannot succeed.",
    "401": "The client has no known token or certificate.",
    "403": "The client may not do this, or names another host.",
    "404": "An object that the request names does not exist.",
    "503": "The request may be repeated; Retry-After, if present, names the delay in seconds.",
}


def described(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return the routes with that of the document about them."""
    operations = [route.operation for route in routes if isinstance(route, ApiRoute)]
    document = openapi_document(operations)

    async def serve_document(request: Request) -> Response:
        return await made_response(request, lambda: make_json(document))

    return [*routes, Route(DOCUMENT, serve_document, methods=["GET"])]


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document."""
    schemas: dict[str, Any] = {}
    paths = {
        operation.path: {operation.method.lower(): _describe(operation, schemas)} for operation in operations
    }
    _schema_of(TypeAdapter(Problem), schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tideline",
            "version": version_text(),
            "description": "Timelines, the partition index, flat tables and the status of a daemon. "
            "Names and numbers are those of the metastore.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"login": []}, {}],
    }


def _describe(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = operation.describe_parameters()
    if "{name}" in operation.path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        parameters.insert(0, {**name, "description": operation.name})
    problems = {**_PROBLEMS, **operation.problems}
    answer = operation.finish(_schema_of(operation.answer, schemas))
    problem = {"content": {PROBLEM: {"schema": {"$ref": _REFERENCE.format(model=Problem.__name__)}}}}
    content: dict[str, Any] = {"application/json": {"schema": answer}}
    if operation.streams:
        content["text/event-stream"] = {}
    changes = {}
    if operation.body is not None:
        schema = _schema_of(operation.body, schemas)
        required = bool(operation.body.json_schema().get("required"))
        body = {"content": {"application/json": {"schema": schema}}, "required": required}
        changes = {"requestBody": body, "security": [{"token": []}]}
    return {
        **changes,
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": _identify(operation.path),
        "parameters": parameters,
        "responses": {
            str(operation.code): {"description": "The answer.", "content": content},
            **{code: {"description": meaning, **problem} for code, meaning in problems.items()},
        },
    }


def _schema_of(adapter: TypeAdapter[Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a form; the forms in it are added to ``schemas``."""
    schema = adapter.json_schema(ref_template=_REFERENCE, mode="serialization")
    schemas |= schema.pop("$defs", {})
    name = schema.get("title")
    if schema.get("type") != "object" or name is None:
        return schema
    schemas[name] = schema
    return {"$ref": _REFERENCE.format(model=name)}


def _identify(path: str) -> str:
    words = path.removeprefix(BASE).replace("{name}", "one").split("/")
    return "_".join(word for word in words if word)
