"""An operation of the API: its route, its parameters and the form of its answer, declared once.

The declaration is the source of the route and of the OpenAPI document, and tests check answers against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from daemon.http.parameters import Parameters, describe_parameters


if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pydantic import TypeAdapter
    from starlette.requests import Request
    from starlette.responses import Response


BASE: Final = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation on a path, which may have ``{name}``."""

    path: str
    tag: str
    """Its heading in the list."""
    summary: str
    answer: TypeAdapter[Any]
    """The form of its answer."""
    name: str = "Name of the table, as db.table."
    """Meaning of ``{name}`` in the path."""
    parameters: Sequence[type[Parameters]] = (Parameters,)
    """Kinds of parameters. A request has those of one kind."""
    body: TypeAdapter[Any] | None = None
    """The form of the body of an operation that changes something."""
    begins: bool = False
    """Whether it only begins work that takes longer than a request: its answer is a 202."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Further statuses of problems, and their meaning."""
    streams: bool = False
    """Whether it can answer with server-sent events too, whose data have the form of the answer."""
    finish: Callable[[dict[str, Any]], dict[str, Any]] = lambda schema: schema
    """Completes the schema of the answer."""

    @property
    def method(self) -> str:
        """``POST`` if it changes something."""
        return "GET" if self.body is None else "POST"

    def describe_parameters(self) -> list[dict[str, Any]]:
        """Return the parameters as OpenAPI has them."""
        return describe_parameters(*self.parameters)

    @property
    def code(self) -> int:
        """The status of its answer."""
        return 202 if self.begins else 200


class ApiRoute(Route):
    """The route of an operation."""

    def __init__(
        self, operation: Operation, endpoint: Callable[[Request], Awaitable[Response] | Response]
    ) -> None:
        super().__init__(operation.path, endpoint, methods=[operation.method])
        self.operation: Operation = operation


def first_sentence(kind: type) -> str:
    """Return the first sentence of a class's docstring, on one line."""
    text = " ".join((kind.__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".") + "."
