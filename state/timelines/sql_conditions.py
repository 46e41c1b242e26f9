"""SQL conditions that select the partitions of a cover, in the three ways of Lens.

OR names each partition, IN lists them, and BETWEEN gives the bounds of each run. Values are strings, and the
day ``2015-01-02`` sorts between the hours ``2015-01-01-20`` and ``2015-01-02-05``, and so does a value that
is not a time, such as ``2015-01-02_backup``. BETWEEN is therefore not possible for a column with several
periods, or with an ignored value in between; every run gets its own condition. Lens does neither and selects
too much (reference: lens-timelines.md §2.1).

Texts compare by code point, as Hive and Spark compare STRING by its UTF-8 bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from state.errors import BadInput, LimitExceeded
from state.timelines.cover import CoverRun
from state.timelines.ignored_values import IGNORED_MAX, IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs


PARTITIONS_MAX: Final = 1_000_000
SHOWN_MAX: Final = 10
"""Values that an error names."""
_is_plain: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


@dataclass(frozen=True, slots=True)
class Column:
    """The column of the condition, with the alias of its table in the query."""

    name: str
    alias: str = ""

    def __str__(self) -> str:
        return ".".join(_quote(part) for part in (self.alias, self.name) if part)


def format_or(column: Column, runs: Iterable[CoverRun]) -> str:
    """Write ``(t.dt = 'a') OR (t.dt = 'b')``; empty text for no runs.
    Raises LimitExceeded beyond PARTITIONS_MAX.
    """
    return " OR ".join(f"({column} = '{value}')" for value in _list_values(runs))


def format_in(column: Column, runs: Iterable[CoverRun]) -> str:
    """Write ``(t.dt IN ('a','b'))``; empty text for no runs. Raises LimitExceeded beyond PARTITIONS_MAX."""
    values = ",".join(f"'{value}'" for value in _list_values(runs))
    return f"({column} IN ({values}))" if values else ""


def format_between(
    column: Column,
    runs: Sequence[CoverRun],
    held: Collection[UpdatePeriod],
    ignored: IgnoredValues | None,
) -> str:
    """Write ``(t.dt BETWEEN 'a' AND 'b')``, one per run and joined by OR.

    ``held`` are the periods that the column has in its table, used by the cover or not; ``ignored`` are its
    values outside the timelines, or None if unknown. A run of one partition becomes an equality. Raises
    BadInput if the runs or the column have several periods, or if an ignored value lies, or may lie, within a
    run.
    """
    periods = {run.period for run in runs}
    if len(periods) > 1 or len(periods.union(held)) > 1:
        names = sorted(period.lens_name for period in periods.union(held))
        raise BadInput(
            "BETWEEN would also select partitions of other periods", periods=names, hint="Use OR or IN."
        )
    bounds = [(run.period.format(run.first), run.period.format(run.last)) for run in runs]
    _refuse_ignored([ends for ends in bounds if ends[0] != ends[1]], ignored)
    return " OR ".join(_format_bounds(column, low, high) for low, high in bounds)


def _refuse_ignored(bounds: Sequence[tuple[str, str]], ignored: IgnoredValues | None) -> None:
    """Raise BadInput if an ignored value lies, or may lie, within one of the bounds."""
    if bounds and (ignored is None or not ignored.is_complete):
        what = "are not known" if ignored is None else f"are more than {IGNORED_MAX}"
        raise BadInput(
            f"BETWEEN may also select values outside of the timeline, which {what}",
            hint="Use OR or IN."
            if ignored is not None
            else "Use OR or IN, or load the table from its partitions ('tideline timeline rebuild').",
        )
    ordered = sorted(ignored.texts) if ignored else []
    between = [
        text
        for low, high in bounds
        for text in ordered[bisect_left(ordered, low) : bisect_right(ordered, high)]
    ]
    if between:
        raise BadInput(
            "BETWEEN would also select values outside of the timeline",
            values=between[:SHOWN_MAX],
            count=len(between),
            hint="Use OR or IN.",
        )


def _format_bounds(column: Column, low: str, high: str) -> str:
    if low == high:
        return f"({column} = '{low}')"
    return f"({column} BETWEEN '{low}' AND '{high}')"


def refuse_shared_texts(
    runs: Iterable[CoverRun], held: Mapping[UpdatePeriod, Runs], ignored: IgnoredValues | None
) -> None:
    """Raise BadInput if a value of the runs is also the text of a partition that the cover does not use.

    A month and the first month of a quarter have the same text. With several partition columns, both may
    exist.
    """
    twins = [(period, others) for period, others in held.items() if others]
    for run in runs:
        for number in range(run.first, run.last + 1):
            text = run.period.format(number)
            if (ignored is not None and text in ignored.texts) or _is_in_others(text, run.period, twins):
                raise BadInput(
                    "the column has the same value for partitions of several update periods",
                    value=text,
                    hint="Select the period by another partition column.",
                )


def _is_in_others(text: str, period: UpdatePeriod, twins: Iterable[tuple[UpdatePeriod, Runs]]) -> bool:
    return any(
        (number := other.parse_or_none(text)) is not None and number in runs
        for other, runs in twins
        if other is not period and other.text_length == period.text_length
    )


def _list_values(runs: Iterable[CoverRun]) -> list[str]:
    values: list[str] = []
    for run in runs:
        if len(values) + run.last - run.first >= PARTITIONS_MAX:
            raise LimitExceeded(
                "too many partitions for one condition", limit=PARTITIONS_MAX, hint="Use BETWEEN."
            )
        values.extend(map(run.period.format, range(run.first, run.last + 1)))
    return values


def _quote(name: str) -> str:
    return name if _is_plain(name) else "`" + name.replace("`", "``") + "`"
