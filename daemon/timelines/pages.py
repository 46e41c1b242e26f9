"""Pages of timelines: the list of tables, and one table with its runs, its holes, and covers of ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from daemon.catalog.pages import list_tables
from daemon.http.parameters import read_parameters
from daemon.http.transport.answering import Lane
from daemon.site.lists import ListParameters
from daemon.site.pages import Asked, PageRoute
from daemon.timelines.answers import TimelineAnswers
from daemon.timelines.pictures import draw_cover, draw_timelines
from daemon.timelines.queries import CoverRange
from daemon.timelines.values import ignored_of, timeline_of
from state.errors import TidelineError


PATH: Final = "/timelines"
SHOWN_MAX: Final = 100
"""Runs, holes and missing ranges listed."""
FORMS: Final = ("or", "in", "between")


def timeline_pages(answers: TimelineAnswers) -> Sequence[PageRoute]:
    """Return the routes of the pages."""

    def tables(asked: Asked) -> dict[str, Any]:
        return {"listed": list_tables(asked, answers)}

    def table(asked: Asked) -> dict[str, Any]:
        return _table_values(asked, answers)

    return (
        PageRoute(
            PATH, "timelines.html", tables, entry="Timelines", parameters=ListParameters, lane=Lane.MEMORY
        ),
        PageRoute(f"{PATH}/{{name}}", "timeline.html", table, parameters=CoverRange, lane=Lane.MEMORY),
    )


def _table_values(asked: Asked, answers: TimelineAnswers) -> dict[str, Any]:
    name = asked.name
    source, view = answers.find_table(name, asked.parameters.get("source"))
    timelines = view.timelines.timelines(name)
    columns = [
        {
            "name": column,
            "picture": draw_timelines([each for each in timelines if each.column == column]),
            "timelines": [timeline_of(each, SHOWN_MAX) for each in timelines if each.column == column],
            "ignored": ignored_of(column, view.timelines.ignored(name, column)),
        }
        for column in dict.fromkeys(each.column for each in timelines)
    ]
    return {
        "table": name,
        "state": view.state(name),
        "reason": view.quarantined.get(name),
        "shown": answers.currency(source, view),
        "shown_max": SHOWN_MAX,
        "columns": columns,
        "forms": FORMS,
        "asked": asked.parameters,
        **_cover_values(name, asked.parameters, answers),
    }


def _cover_values(name: str, given: Mapping[str, str], answers: TimelineAnswers) -> dict[str, Any]:
    """Return the cover of the range that the form has; the page shows an error of it next to the form."""
    if not {"from", "to"} <= given.keys():
        return {"cover": None, "picture": None, "problem": None}
    try:
        answer, cover = answers.find_cover(read_parameters(CoverRange, given, name=name))
    except TidelineError as problem:
        return {"cover": None, "picture": None, "problem": problem}
    return {"cover": answer, "picture": draw_cover(cover), "problem": None}
