"""Decisions about the keys of flat tables over HTTP, and the rows of the key log, for operators.

They act like ``tideline keys whitelist``, ``skip``, ``pin``, ``unpin`` and ``log``, so that these need no
connection to the database. A decision is stored with the name of the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Interval, MinLen
from pydantic import TypeAdapter

from daemon.config.fields import parse_key
from daemon.http.actions import STRICT, Audit, signed_action_route
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.keylog.settings import ColumnTypeName
from state.columns.paths import parse_column_key
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.keylog.settings import KeyedTable
    from streaming.keylog.log import KeyLog


@dataclass(frozen=True)
class DecisionParameters:
    """A decision about a key of a flat table."""

    __pydantic_config__ = STRICT
    kind: Literal["always", "skip", "pin"]
    key: Annotated[str, MinLen(1)]
    """``$.a.b`` or ``a.b``; for ``skip`` a pattern such as ``$.debug.*``."""
    type: ColumnTypeName | None = None
    """For ``pin``: the type of the column."""
    remove: bool = False
    """Whether the decision is removed."""


@dataclass(frozen=True)
class LogParameters(Parameters):
    """Which rows of the key log to return."""

    raw_table: str | None = None
    """Only keys of this raw table, as db.table."""
    key: str | None = None
    """Only this key, as $.a.b or a.b."""
    user: str | None = None
    """Only queries of this user."""
    source: str | None = None
    """Only queries from this source."""
    days: Annotated[int, Interval(ge=1, le=3_650)] = 30
    """Number of days to look back."""
    limit: Annotated[int, Interval(ge=1, le=1_000)] = 100
    """The most rows to return."""


@dataclass(frozen=True)
class DecisionAnswer:
    """The decision."""

    table: str
    kind: str
    key: str
    type: str | None
    removed: bool | None
    """Whether it was there; null if it was stored."""


@dataclass(frozen=True)
class LogRow:
    """A user's requests of a key in one query on one day."""

    raw_table: str
    key: str
    day: str
    user: str
    source: str
    fingerprint: str
    """Identifies the query."""
    count: int
    first_s: int
    last_s: int


@dataclass(frozen=True)
class LogRows:
    """Rows of the key log, the newest first."""

    days: int
    entries: list[LogRow]


def decide(log: KeyLog, flat: KeyedTable, given: DecisionParameters, by: str) -> dict[str, Any]:
    """Store or remove a decision (``DecisionAnswer``); raise BadInput for one that contradicts itself."""
    from daemon.keylog.answers import save_decision  # loads the database library

    if (given.kind == "pin" and not given.remove) != (given.type is not None):
        raise BadInput("'pin' requires a type, and only 'pin' accepts one", kind=given.kind, type=given.type)
    parse = parse_key if given.remove else parse_column_key
    subject = given.key if given.kind == "skip" else parse(given.key)
    return save_decision(log, flat, given.kind, subject, given.type, by, remove=given.remove)


def key_log_routes(
    find: Callable[[str], KeyedTable], open_log: Callable[[], KeyLog], audit: Audit
) -> Sequence[ApiRoute]:
    """Return the routes; ``find`` returns a flat table by its name, or raises NotFound."""

    def do(name: str, given: DecisionParameters, client: str) -> dict[str, Any]:
        return decide(open_log(), find(name), given, client)

    def read(_name: str, given: LogParameters) -> dict[str, Any]:
        from daemon.keylog.answers import read_log
        from streaming.keylog.log_reader import LogFilter

        key = None if given.key is None else parse_key(given.key)
        log_filter = LogFilter(given.raw_table, given.user, given.source, key, given.days)
        return read_log(open_log(), log_filter, given.limit)

    decided = Operation(
        path=f"{BASE}/flat/{{name}}/decide",
        tag="Flat tables",
        summary="Store or remove a decision about a key of a flat table.",
        answer=TypeAdapter(DecisionAnswer),
        name="Name of the flat table in the configuration, or as db.table.",
        body=TypeAdapter(DecisionParameters),
    )
    listed = Operation(
        path=f"{BASE}/key-log",
        tag="Flat tables",
        summary="Which user requested which key, for operators.",
        answer=TypeAdapter(LogRows),
        parameters=(LogParameters,),
    )
    return (
        signed_action_route(decided, DecisionParameters, do, audit),
        ApiRoute(listed, build_endpoint(LogParameters, read, operators_only=True)),
    )
