"""Queries about catalogs as values.

A command builds one, or a route reads one from its request, and both pass it to ``answer(query)``. The class
of a query names its HTTP path, and its fields are the parameters (``daemon.http.parameters``). The route and
the client read the same declaration, so a parameter has one name, one format and one limit. The answers are
the same objects in the process and over HTTP (``Answers``). They are plain values with declared forms for the
description of the API, and tests check each answer against its form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Protocol, TypeVar
from urllib.parse import quote

from annotated_types import Interval

from daemon.http.parameters import Parameters


if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import Route


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


@dataclass(frozen=True, kw_only=True)
class Query(Parameters):
    """A query; subclasses are frozen, and those whose path has ``{name}`` have a field ``name``."""

    path: ClassVar[str]
    form: ClassVar[Any]
    """The form of the answer."""
    source: str | None = None
    """Name of the source. Optional if only one source has the object."""

    def url_path(self) -> str:
        """Return the path of the query."""
        return self.path.replace("{name}", quote(getattr(self, "name", "")))


@dataclass(frozen=True, kw_only=True)
class TableList(Query):
    """The tables whose names start with ``prefix``, and how current each source is."""

    prefix: str = ""
    """How the names of the listed tables begin, in any case."""
    limit: Annotated[int, Interval(ge=0, le=TABLES_MAX)] = TABLES_MAX
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
    from pydantic import TypeAdapter

    from daemon.http.endpoints import build_endpoint
    from daemon.http.operations import ApiRoute, Operation, first_sentence
    from daemon.http.transport.answering import Lane

    operation = Operation(
        path=query.path,
        tag=tag,
        summary=first_sentence(query),
        answer=TypeAdapter(query.form),
        name="Name of the table (db.table) or of the fact.",
        parameters=(query,),
    )
    lane = Lane.STORE if reads_store else Lane.MEMORY
    return ApiRoute(operation, build_endpoint(query, lambda _, given: answers.answer(given), lane=lane))
