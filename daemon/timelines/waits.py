"""Waiting for the complete cover of a range of time (``daemon.waits.conditions``).

Covers come from memory, without calls to a metastore.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daemon.catalog.branch import OpenSource
from daemon.catalog.opening import projection_name
from daemon.timelines.answers import TimelineAnswers
from daemon.timelines.queries import CoverRange
from daemon.waits.conditions import Reached, WaitKind, WaitParameters
from state.errors import BadInput, NotFound


@dataclass(frozen=True, kw_only=True)
class RangeParameters(WaitParameters):
    """A range of time to wait for."""

    range: str
    """Wait until the partitions of 'table' or 'fact' cover this range: 2024-01-01..2024-02-01. The end is
    excluded."""
    table: str | None = None
    """The table of 'partition' or 'range', as db.table."""
    fact: str | None = None
    """The fact of 'range', instead of a table."""
    column: str | None = None
    """The time column of 'range', if there are several."""
    source: str | None = None
    """Name of the source, if several have the table."""


@dataclass(frozen=True, slots=True)
class RangeCovered:
    """The condition that a range is covered (``daemon.waits.conditions.Condition``)."""

    answers: TimelineAnswers
    sources: tuple[str, ...]
    """Those whose catalogs can make it true."""
    query: CoverRange

    @property
    def projections(self) -> Collection[str]:
        """The projections of the catalogs."""
        return [projection_name(source) for source in self.sources]

    def check(self) -> Reached:
        """Return whether nothing is missing; raise NotFound for an unknown name, BadInput."""
        # Before the look, which may find it.
        may_appear = self.answers.may_appear(self.query.name, self.query.source)
        try:
            answer = self.answers.answer(self.query)
        except NotFound:
            if may_appear:
                return Reached(is_true=False, reason="the tables are being loaded")
            raise
        missing = [part["range"] for part in answer["missing"][:3]]
        return Reached(
            is_true=answer["complete"],
            source=answer["source"],
            event_id=answer["event_id"],
            reason="" if answer["complete"] else f"missing: {', '.join(missing)}",
            left_out=tuple(sorted(each for each, state in answer["states"].items() if state != "following")),
        )


def range_kind(sources: Sequence[OpenSource]) -> WaitKind[RangeParameters]:
    """Return the kind of conditions about ranges of time."""
    answers = TimelineAnswers(sources, lambda _: None)

    def build(given: RangeParameters) -> RangeCovered:
        names = [each.lower() for each in (given.table, given.fact) if each is not None]
        if len(names) != 1:
            raise BadInput("either a table or a fact is required", required=["table", "fact"])
        start, dots, end = given.range.partition("..")
        if not (start and dots and end):
            raise BadInput("range: must be START..END", parameter="range", value=given.range[:100])
        found = tuple(each.source for each in sources if given.source in {None, each.source})
        answers.open_sources(given.source)  # raises NotFound
        query = CoverRange(name=names[0], start=start, end=end, column=given.column, source=given.source)
        return RangeCovered(answers, found, query)

    return WaitKind(name="range", parameters=RangeParameters, build=build)
