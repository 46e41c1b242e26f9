"""The pages of flat tables and the routes:
``/flat`` and ``/flat/TABLE`` as HTML, ``/api/v1/flat[/TABLE]`` as JSON.

TABLE is the name in the configuration or ``db.table``. A page is made completely on the server: it has no
scripts and loads nothing, and every text from outside is escaped. Which user queries which key is shown to
operators; others see pseudonyms.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import TypeAdapter
from starlette.routing import Route

from daemon.flat.forms import FlatList, FlatTable
from daemon.http.endpoints import HTML, Made, build_endpoint, made_response, may_operate
from daemon.http.markup import bar, drawn_bar, page, percent_text, table, text
from daemon.http.operations import ApiRoute, Operation
from daemon.http.problems import status_of
from daemon.terminal.layout import bytes_text, duration_text, number_text
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.flat.answers import FlatAnswers


CANDIDATES_MAX: Final = 500
USERS_SHOWN: Final = 3
Row = Mapping[str, Any]


def flats_page(answer: Row) -> str:
    """Return the page that lists the flat tables."""
    rows = [
        (
            f'<a href="/flat/{quote(each["name"])}">{text(each["table"])}</a>',
            text(_driver_state(each["driver"])),
            number_text(each["columns"]),
            number_text(each["rows"]),
            text(_age(each)),
        )
        for each in answer["flat"]
    ]
    head = (("table", ""), ("driver", ""), ("columns", "n"), ("rows", "n"), ("as of", ""))
    return page("Flat tables", f"<h1>Flat tables</h1>\n{table(head, rows)}", "/api/v1/flat")


def flat_page(answer: Row, *, served: bool = True) -> str:
    """Return the page of one table; ``served`` adds links to other pages."""
    body = "\n".join(
        [
            f"<h1>{text(answer['table'])}</h1>",
            _summary(answer),
            _trailing(answer["totals"]),
            _saving(answer["totals"]),
            "<h2>Columns</h2>",
            _columns(answer),
            "<h2>Keys without a column</h2>",
            _candidates(answer),
            "<h2>History</h2>",
            _changes(answer["changes"]),
        ]
    )
    json_path = f"/api/v1/flat/{quote(str(answer['name']))}" if served else None
    return page(str(answer["table"]), body, json_path)


def error_page(error: TidelineError) -> str:
    """Return the page of an error."""
    body = f"<h1>{text(error.message)}</h1>\n<p>{text(error.hint)}</p>"
    return page("Flat tables", body, "/api/v1/flat")


def _summary(answer: Row) -> str:
    totals, driver = answer["totals"], answer["driver"]
    live = sum(each["state"] == "live" for each in answer["columns"])
    facts = [
        ("as of", _age(answer)),
        ("driver", _driver_text(driver)),
        ("raw table", answer["raw_table"]),
        ("version", number_text(answer["version"])),
        ("columns", f"{live} of {answer['columns_max']} allowed; {len(answer['columns'])} slots"),
        ("rows", number_text(totals["rows"])),
        ("hours", _hours(totals)),
    ]
    rows = "\n".join(f"<tr><td>{text(name)}</td><td>{text(value)}</td></tr>" for name, value in facts)
    problem = f'\n<p class="bad">{text(driver["problem"])}</p>' if driver and driver["problem"] else ""
    return f"<table>\n{rows}\n</table>{problem}"


def _trailing(totals: Row) -> str:
    if not totals["trailing"]:
        return ""
    return (
        f'<p class="bad">{number_text(totals["trailing"])} rows or more arrived with text behind their '
        "first document, such as a second one. "
        "Its values are in no column, and the whole text is in _rescued, until a backfill separates them. "
        "If such documents are events, set source.documents: many.</p>"
    )


def _saving(totals: Row) -> str:
    if totals["saving"] is None:
        return '<p class="dim">The saving is known once the first hour is sealed.</p>'
    raw, flat = totals["sealed_raw_bytes"], totals["flat_bytes"]
    return (
        f"<p>sealed hours: {bytes_text(raw)} of JSON are stored in {bytes_text(flat)}, "
        f"{percent_text(flat / raw)}<br>\n"
        f"{drawn_bar(flat / raw, 'bar wide')}</p>"
    )


def _columns(answer: Row) -> str:
    head = (
        ("slot", "n"),
        ("column", ""),
        ("key", ""),
        ("type", ""),
        ("state", ""),
        ("filled", "t"),
        ("misfits", "n"),
        ("first seen", ""),
        ("last seen", ""),
        (f"requested by, {answer['requested_days']} days", ""),
    )
    rows = [
        (
            str(each["index"]),
            text(each["name"])
            + (f'<br><span class="dim">was {text(each["former"])}</span>' if each["former"] else ""),
            text(each["key"] or ""),
            text(each["type"]),
            text(each["state"]),
            bar(each["fill"]),
            number_text(each["misfits"] or None),
            _hour(each["first_seen_hour"]),
            _hour(each["last_seen_hour"]),
            text(_requested_by(each)),
        )
        for each in answer["columns"]
    ]
    classes = ["" if each["state"] == "live" else "empty" for each in answer["columns"]]
    if not rows:
        return '<p class="dim">No batch has been written yet.</p>'
    return table(head, rows, classes)


def _candidates(answer: Row) -> str:
    rows: Sequence[Row] = answer["candidates"]
    if not rows:
        return '<p class="dim">None: every requested key is a column.</p>'
    head = (("key", ""), ("verdict", ""), ("why", ""), ("rank", "n"), ("requested by", ""))
    listed = table(
        head,
        [
            (
                text(each["key"]),
                text(each["verdict"]),
                text(each["reason"]),
                number_text(each["rank"]),
                text(_requested_by(each)),
            )
            for each in rows[:CANDIDATES_MAX]
        ],
    )
    more = len(rows) - CANDIDATES_MAX
    return f'{listed}\n<p class="dim">and {number_text(more)} more</p>' if more > 0 else listed


def _changes(rows: Sequence[Row]) -> str:
    if not rows:
        return '<p class="dim">Nothing has changed yet.</p>'
    head = (("when", ""), ("version", "n"), ("change", ""), ("slot", "n"), ("key", ""), ("why", ""))
    return table(
        head,
        [
            (
                time.strftime("%Y-%m-%d %H:%M", time.gmtime(each["at_s"])),
                number_text(each["version"]),
                text(each["kind"]),
                number_text(each["slot"]),
                text(each["key"]),
                text(each["reason"]),
            )
            for each in rows
        ],
    )


def _requested_by(row: Row) -> str:
    users = row["users"] or ()
    if not users:
        return "-"
    more = f" and {len(users) - USERS_SHOWN} more" if len(users) > USERS_SHOWN else ""
    return f"{', '.join(users[:USERS_SHOWN])}{more}; {row['days']} d, {number_text(row['count'])} x"


def _driver_state(driver: Row | None) -> str:
    return "not run by this daemon" if driver is None else str(driver["state"])


def _driver_text(driver: Row | None) -> str:
    if driver is None:
        return _driver_state(None)
    parts = [str(driver["state"])]
    if driver["batch"] is not None:
        parts.append(f"batch {number_text(driver['batch'])}")
    if driver["lag_records"] is not None:
        parts.append(f"{number_text(driver['lag_records'])} records behind")
    if driver["reported_s"] is not None:
        parts.append(f"last report {duration_text(time.time() - driver['reported_s'])} ago")
    return ", ".join(parts)


def _age(answer: Row) -> str:
    if answer["updated_at_s"] is None:
        return "unknown: no driver has written a snapshot of the table yet"
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(answer["updated_at_s"]))
    return f"{at}, {duration_text(answer['age_s'])} ago"


def _hours(totals: Row) -> str:
    if not totals["hours"]:
        return "none"
    first, last = totals["hours"]
    hours = f"{number_text(totals['partitions'])} from {_hour(first)} to {_hour(last)}"
    return f"{hours}, {number_text(totals['sealed'])} sealed"


def _hour(hour: int | None) -> str:
    return "-" if hour is None else time.strftime("%Y-%m-%d %Hh", time.gmtime(hour))


PATH: Final = "/api/v1/flat"
PAGE: Final = "/flat"


def flat_routes(answers: FlatAnswers) -> list[Route]:
    """Return the routes of the pages and the JSON."""

    def tables(_name: str) -> Row:
        return answers.list_tables()

    def route(path: str, answer: Callable[[str], Row], form: type, summary: str) -> Route:
        endpoint = build_endpoint((), lambda name, _: dict(answer(name)), for_viewers=hide_users)
        name = "Name of the flat table in the configuration, or as db.table."
        operation = Operation(
            path=path, tag="Flat tables", summary=summary, answer=TypeAdapter(form), name=name
        )
        return ApiRoute(operation, endpoint)

    def page(path: str, answer: Callable[[str], Row], written: Callable[[Row], str]) -> Route:
        return Route(path, _page(answer, written), methods=["GET"])

    return [
        route(PATH, tables, FlatList, "The flat tables, with the states of their drivers."),
        route(
            f"{PATH}/{{name}}",
            answers.show_table,
            FlatTable,
            "One flat table: columns, keys without a column, and the history.",
        ),
        page(PAGE, tables, flats_page),
        page(f"{PAGE}/{{name}}", answers.show_table, flat_page),
    ]


def _page(
    answer: Callable[[str], Row], written: Callable[[Row], str]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        def make() -> Made:
            try:
                found = answer(request.path_params.get("name", "").lower())
            except TidelineError as error:
                return Made(error_page(error).encode(), HTML, status_of(error))
            shown = found if may_operate(request) else hide_users(found)
            return Made(written(shown).encode(), HTML)

        return await made_response(request, make)

    return endpoint


_HIDING_KEY: Final = secrets.token_bytes(32)


def hide_users(answer: Row) -> dict[str, Any]:
    """Return the answer with a pseudonym for each user, for clients that may only view.

    A user has the same pseudonym everywhere until the daemon is restarted. The key is stored nowhere, so
    that trying all names of a directory does not find the user.
    """
    rows = {
        name: [{**each, "users": [_pseudonym(user) for user in each["users"] or ()]} for each in answer[name]]
        for name in ("columns", "candidates")
        if isinstance(answer.get(name), list)
    }
    return {**answer, **rows}


def _pseudonym(user: str) -> str:
    digest = hmac.digest(_HIDING_KEY, user.encode(errors="surrogatepass"), "sha256")
    return f"user-{digest.hex()[:8]}"
