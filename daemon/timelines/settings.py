"""Settings of facts: tables that hold the same data and are covered together (section ``facts``)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from daemon.config.fields import Name, TableName
from daemon.config.section import ConfigSection, Section, refused
from state.errors import BadInput
from state.timelines.time_ranges import TimeRange


def _check_moment(text: str) -> str:
    try:
        TimeRange.parse(text, text)
    except BadInput:
        raise refused(
            "is no moment: a partition value such as 2015-01 or an ISO 8601 moment is wanted"
        ) from None
    return text


Moment = Annotated[str, AfterValidator(_check_moment)]


class FactTable(Section):
    """A storage table of a fact."""

    start: Moment | None = Field(
        default=None, description="First moment for which the table may answer (UTC)."
    )
    end: Moment | None = Field(
        default=None, description="Moment from which on it may not answer any more (UTC)."
    )


class FactConfig(Section):
    """Tables that hold the same data and are covered together."""

    source: Name = Field(description="Source of the tables.")
    tables: dict[TableName, FactTable] = Field(
        min_length=1, max_length=64, description="The storage tables, as db.table, with their windows."
    )


FACTS: Final[ConfigSection[dict[str, FactConfig]]] = ConfigSection(
    "facts",
    dict[Name, FactConfig],
    Field(default={}, max_length=10_000, description="Tables that are covered together, by name."),
)
