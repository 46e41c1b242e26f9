"""Pages and routes of flat tables: ``/flat`` and ``/flat/TABLE`` as HTML, ``/api/v1/flat[/TABLE]`` as JSON.

TABLE is the name in the configuration or ``db.table``. The page of one table can also be a file, which loads
nothing. Operators see which user queries which key; viewers see pseudonyms.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from daemon.flat.calendar import draw_calendar
from daemon.flat.status import FlatStatus
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.site.pages import Asked, PageRoute
from daemon.site.rendering import render
from daemon.terminal.layout import duration_text, id_text, number_text


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.routing import Route

    from daemon.flat.answers import FlatAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRow:
    """A flat table in a list."""

    name: str
    table: str
    raw_table: str
    driver: FlatStatus | None
    version: int | None
    updated_at_s: int | None
    age_s: int | None
    """Age of the snapshot that its driver has left."""
    columns: int | None
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatList:
    """The flat tables."""

    flat: list[FlatRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeForm:
    """One change of a flat table's columns."""

    version: int
    n: int
    at_s: int
    kind: str
    slot: int | None
    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """The keys of a flat table, columns first and by rank. Viewers see pseudonyms in ``users``."""

    table: str
    raw_table: str
    requested_days: int
    requested: int
    """Keys queried in these days."""
    columns: int
    columns_max: int
    reasons_from: str
    """``driver``, or ``rules`` if there is a later decision than its last batch."""
    driver_at_s: int | None
    keys: list[dict[str, Any]]
    """Keys with verdicts, reasons, and who queries them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleForm:
    """A decision about a key."""

    kind: str
    key: str
    type: str | None
    by: str
    """``configuration``, or the user who decided."""
    at_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleList:
    """The decisions about the keys of a flat table."""

    table: str
    rules: list[RuleForm]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatTable:
    """One flat table. Viewers see pseudonyms in ``users``."""

    name: str
    table: str
    raw_table: str
    driver: FlatStatus | None
    """None if this daemon does not run it."""
    version: int | None
    updated_at_s: int | None
    age_s: int | None
    requested_days: int
    reasons_from: str
    columns_max: int
    totals: dict[str, Any]
    calendar: dict[str, str]
    """The last days with hours, each with a letter for each hour in UTC: ``s`` sealed, ``o`` open, ``l`` open
    with rows that arrived over an hour after its end, ``-`` without rows."""
    columns: list[dict[str, Any]]
    """Slots with their keys, types, fill rates, and who queries them."""
    candidates: list[dict[str, Any]]
    """Keys without a column, with the reason."""
    changes: list[ChangeForm]
    """The latest changes, newest first."""


CANDIDATES_MAX: Final = 500
USERS_SHOWN: Final = 3
Row = Mapping[str, Any]


def flat_page(answer: Row) -> str:
    """Return the page of one table as a file that needs no other files."""
    return render("flat_table.html", layout="file.html", **flat_values(answer))


def flat_values(answer: Row) -> dict[str, Any]:
    """Return the values of the page of one table."""
    totals, columns = answer["totals"], answer["columns"]
    return {
        "flat": answer,
        "totals": totals,
        "calendar": draw_calendar(answer["calendar"]),
        "driver": describe_driver(answer["driver"]),
        "live": sum(each["state"] == "live" for each in columns),
        "columns": [{**each, "requested_by": _requested_by(each)} for each in columns],
        "candidates": [
            {**each, "requested_by": _requested_by(each)} for each in answer["candidates"][:CANDIDATES_MAX]
        ],
        "more": max(0, len(answer["candidates"]) - CANDIDATES_MAX),
    }


def _requested_by(row: Row) -> str:
    users = row["users"] or ()
    if not users:
        return "-"
    more = f" and {len(users) - USERS_SHOWN} more" if len(users) > USERS_SHOWN else ""
    return f"{', '.join(users[:USERS_SHOWN])}{more}; {row['days']} d, {number_text(row['count'])} x"


def describe_driver(driver: Row | None) -> str:
    """Return the state of a table's driver in words."""
    if driver is None:
        return "not run by this daemon"
    parts = [str(driver["state"])]
    if driver["batch"] is not None:
        parts.append(f"batch {id_text(driver['batch'])}")
    if driver["lag_records"] is not None:
        parts.append(f"{number_text(driver['lag_records'])} records behind")
    if driver["reported_s"] is not None:
        parts.append(f"last report {duration_text(time.time() - driver['reported_s'])} ago")
    return ", ".join(parts)


PATH: Final = "/api/v1/flat"
PAGE: Final = "/flat"


def flat_routes(answers: FlatAnswers) -> list[Route]:
    """Return the routes of the pages and the JSON."""

    def tables(_name: str) -> Row:
        return answers.list_tables()

    def route(path: str, answer: Callable[[str], Row], form: type, summary: str) -> Route:
        endpoint = build_endpoint(Parameters, lambda name, _: dict(answer(name)), for_viewers=hide_users)
        name = "Name of the flat table in the configuration, or as db.table."
        operation = Operation(
            path=path, tag="Flat tables", summary=summary, answer=TypeAdapter(form), name=name
        )
        return ApiRoute(operation, endpoint)

    def show_list(_asked: Asked) -> Row:
        return {"tables": answers.list_tables()["flat"]}

    def show_table(asked: Asked) -> Row:
        found = answers.show_table(asked.name.lower())
        return {"layout": "base.html", **flat_values(found if asked.may_operate else hide_users(found))}

    return [
        route(PATH, tables, FlatList, "The flat tables, with the states of their drivers."),
        route(
            f"{PATH}/{{name}}",
            answers.show_table,
            FlatTable,
            "One flat table: columns, keys without a column, and the history.",
        ),
        route(
            f"{PATH}/{{name}}/keys", answers.list_keys, KeyList, "The keys of a flat table, with the reasons."
        ),
        route(f"{PATH}/{{name}}/rules", answers.list_rules, RuleList, "The decisions about its keys."),
        PageRoute(PAGE, "flat_list.html", show_list, entry="Flat tables"),
        PageRoute(f"{PAGE}/{{name}}", "flat_table.html", show_table),
    ]


_HIDING_KEY: Final = secrets.token_bytes(32)


def hide_users(answer: Row) -> dict[str, Any]:
    """Return the answer with a pseudonym for each user, for clients with only the role view.

    A user has the same pseudonym everywhere until the daemon restarts. The key of the pseudonyms is only in
    memory, so a viewer cannot find a user by trying all names.
    """
    rows = {
        name: [{**each, "users": [_pseudonym(user) for user in each["users"] or ()]} for each in answer[name]]
        for name in ("columns", "candidates", "keys")
        if isinstance(answer.get(name), list)
    }
    if "rules" in answer:
        rows["rules"] = [
            {**each, "by": each["by"] if each["at_s"] is None else _pseudonym(each["by"])}
            for each in answer["rules"]
        ]
    return {**answer, **rows}


def _pseudonym(user: str) -> str:
    digest = hmac.digest(_HIDING_KEY, user.encode(errors="surrogatepass"), "sha256")
    return f"user-{digest.hex()[:8]}"
