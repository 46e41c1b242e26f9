"""Queries about catalogs as values: a command builds one,
a route parses one, and both pass it to ``answer(query)``.

The class of a query names its HTTP path, and each field says how it is written as a parameter. The route and
the client read the same declaration, so a parameter has one name, one format and one limit. The answers are
the same objects in the process and over HTTP (``Answers``). They are plain values with declared forms for the
description of the API, and tests check each answer against its form.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self, TypeVar
from urllib.parse import quote

from state.bounds import parse_number
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.routing import Route

    from daemon.http.endpoints import Parameters
    from daemon.http.operations import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStateForm:
    """The state of a table in detail."""

    state: str
    reason: str | None
    event_id: int | None
    """The event that caused the state."""
    tries: int
    next_try_s: float | None
    """Unix time of the next try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """Which source answers, and how current the answer is."""

    source: str
    event_id: int | None
    """The event that the answer reflects."""
    current_event_id: int | None
    """The newest event of the source; null while it is unreadable."""
    stale: bool
    """Whether the catalog does not follow events now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """One source in a list of tables."""

    event_id: int | None
    current_event_id: int | None
    stale: bool
    tables: int
    loading: int
    quarantined: list[str]


Answer = dict[str, Any]
TABLES_MAX: Final = 1_000
"""Tables in one list; the answer only counts further ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """How to write a field as an HTTP parameter; text under the field's
    own name unless declared otherwise.
    """

    name: str = ""
    parse: Callable[[str], Any] = str
    """Raises ValueError with the rule that the text breaks, such as ``must be true or false``."""
    format: Callable[[Any], str] = str
    """Returns "" without the parameter."""
    is_long: bool = False
    """Whether the text may be longer than a name."""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    """The API's description of its type."""

    @staticmethod
    def of(declared_field: Field[Any]) -> Parameter:
        """Return the written form of a field."""
        return Parameter(**{"name": declared_field.name, **declared_field.metadata})

    def read(self, value: str) -> Any:
        """Return the value of a parameter; raise BadInput."""
        try:
            return self.parse(value)
        except ValueError as error:
            message = f"{self.name} = {value[:100]}: {error}"
            raise BadInput(message, parameter=self.name, value=value[:100]) from error


def parameter(default: Any = MISSING, **declared: Any) -> Any:
    """Return a field of a query that is ``declared`` with the attributes of ``Parameter``."""
    return field(default=default, metadata=declared)


def flag() -> Any:
    """Return a field that is ``true`` or ``false``."""

    def parse(value: str) -> bool:
        if value.lower() not in {"true", "false"}:
            raise ValueError("must be true or false")
        return value.lower() == "true"

    return parameter(
        default=False,
        parse=parse,
        format=lambda value: "true" if value else "",
        schema={"type": "boolean", "default": False},
    )


def number(maximum: int, default: int | None = None, **declared: Any) -> Any:
    """Return a field that is a number from 0 to ``maximum``; the client does not send a negative one."""

    def parse(value: str) -> int:
        found = parse_number(value, 0, maximum)
        if found is None:
            raise ValueError(f"must be a number from 0 to {maximum}")
        return found

    return parameter(
        default,
        parse=parse,
        format=lambda value: str(value) if value >= 0 else "",
        schema={"type": "integer", "minimum": 0, "maximum": maximum},
        **declared,
    )


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query; subclasses are frozen, and those whose path has ``{name}`` have a field ``name``."""

    path: ClassVar[str]
    form: ClassVar[Any]
    """The form of the answer."""
    source: str | None = None
    """Name of the source. Optional if only one source has the object."""

    @classmethod
    def parameters(cls) -> dict[str, tuple[Field[Any], Parameter]]:
        """Return the fields that are parameters, with their written forms, by the names of the parameters."""
        declared = [(each, Parameter.of(each)) for each in fields(cls) if each.name != "name"]
        return {written.name: (each, written) for each, written in declared}

    @classmethod
    def parse(cls, name: str, given: Mapping[str, str]) -> Self:
        """Return the query about ``name`` with parameters as HTTP has them; raise BadInput."""
        parameters = cls.parameters()
        required = [each for each, (known, _) in parameters.items() if known.default is MISSING]
        if not given.keys() >= set(required):
            raise BadInput("a parameter is missing", required=required)
        values = {"name": name} if "{name}" in cls.path else {}
        for each, value in given.items():
            known, written = parameters[each]
            values[known.name] = written.read(value)
        return cls(**values)

    def url_path(self) -> str:
        """Return the path of the query."""
        return self.path.replace("{name}", quote(getattr(self, "name", "")))

    def url_parameters(self) -> dict[str, str]:
        """Return the parameters as HTTP has them; "" for those left out."""
        values = [(written, getattr(self, each.name)) for each, written in self.parameters().values()]
        return {written.name: "" if value is None else written.format(value) for written, value in values}


@dataclass(frozen=True, kw_only=True)
class TableList(Query):
    """The tables whose names start with ``prefix``, and how current each source is."""

    prefix: str = parameter("", parse=str.lower)
    """How the names of the listed tables begin."""
    limit: int = number(TABLES_MAX, TABLES_MAX)
    """The most tables to return."""


Q_contra = TypeVar("Q_contra", bound=Query, contravariant=True)


class Answers(Protocol[Q_contra]):
    """Answers queries: in the process, or by querying a running daemon."""

    def answer(self, query: Q_contra) -> Answer:
        """Return the answer; raise the errors of the query, and Transient if a daemon does not answer."""


Q = TypeVar("Q", bound=Query)


def query_routes(
    queries: Iterable[type[Q]], answers: Answers[Q], *, reads_store: bool, tag: str = "Catalog"
) -> list[Route]:
    """Return a route for each query; ``reads_store`` if answering may wait for another system."""
    return [_route(query, answers, tag, reads_store=reads_store) for query in queries]


def _route(query: type[Q], answers: Answers[Q], tag: str, *, reads_store: bool) -> Route:
    # Imported here, because the commands import the queries.
    from daemon.http.endpoints import build_endpoint
    from daemon.http.operations import ApiRoute
    from daemon.http.transport.answering import Lane

    def answer(name: str, given: Parameters) -> Answer:
        return answers.answer(query.parse(name, given))

    parameters = query.parameters()
    long = [name for name, (_, parameter) in parameters.items() if parameter.is_long]
    lane = Lane.STORE if reads_store else Lane.MEMORY
    return ApiRoute(_operation(query, tag), build_endpoint(parameters, answer, lane=lane, long=long))


def _operation(query: type[Query], tag: str) -> Operation:
    from pydantic import TypeAdapter

    from daemon.http.operations import Operation, OperationParameter, first_sentence
    from state.bounds import read_descriptions

    texts: dict[str, str] = {}
    for kind in reversed(query.__mro__[:-1]):
        texts |= read_descriptions(kind)
    return Operation(
        path=query.path,
        tag=tag,
        summary=first_sentence(query),
        answer=TypeAdapter(query.form),
        name="Name of the table (db.table) or of the fact.",
        parameters=tuple(
            OperationParameter(
                name, texts.get(declared.name, ""), written.schema, declared.default is MISSING
            )
            for name, (declared, written) in query.parameters().items()
        ),
    )
