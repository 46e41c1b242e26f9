"""SQL conditions that select the partitions of a cover, in the three ways of Lens.

OR names each partition, IN lists them, and BETWEEN gives the bounds of each run. Values are strings, and the day
``2015-01-02`` sorts between the hours ``2015-01-01-20`` and ``2015-01-02-05``. BETWEEN is therefore refused for a column with
several periods, and every run gets its own condition. Lens does neither and selects too much (reference: timelines §2.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.errors import BadInput, LimitExceeded


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from state.timelines.cover import CoverRun
    from state.timelines.periods import UpdatePeriod


PARTITIONS_MAX: Final = 1_000_000
_is_plain: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


@dataclass(frozen=True, slots=True)
class Column:
    """The column of the condition, with the alias of its table in the query."""

    name: str
    alias: str = ""

    def __str__(self) -> str:
        return ".".join(_quote(part) for part in (self.alias, self.name) if part)


def format_or(column: Column, runs: Iterable[CoverRun]) -> str:
    """Write ``(t.dt = 'a') OR (t.dt = 'b')``; empty text for no runs. Raises LimitExceeded beyond PARTITIONS_MAX."""
    return " OR ".join(f"({column} = '{value}')" for value in _list_values(runs))


def format_in(column: Column, runs: Iterable[CoverRun]) -> str:
    """Write ``(t.dt IN ('a','b'))``; empty text for no runs. Raises LimitExceeded beyond PARTITIONS_MAX."""
    values = ",".join(f"'{value}'" for value in _list_values(runs))
    return f"({column} IN ({values}))" if values else ""


def format_between(
    column: Column,
    runs: Sequence[CoverRun],
    held: Collection[UpdatePeriod],
    *,
    open_start: bool = False,
    open_end: bool = False,
    always_between: bool = False,
) -> str:
    """Write ``(t.dt BETWEEN 'a' AND 'b')``, one per run and joined by OR.

    ``held`` are the periods that the column has in its table, whether the cover uses them or not. Set an open bound for an
    engine whose BETWEEN excludes its ends: the bound moves by one partition. A run of one partition becomes an equality
    unless ``always_between`` is set or a bound is open. Raises BadInput if the runs or the column have several periods.
    """
    periods = {run.period for run in runs}
    if len(periods) > 1 or len(periods.union(held)) > 1:
        names = sorted(period.lens_name for period in periods.union(held))
        raise BadInput(
            "BETWEEN would also select partitions of other periods", periods=names, hint="Use OR or IN."
        )
    return " OR ".join(_format_run(column, run, open_start, open_end, always_between) for run in runs)


def _format_run(column: Column, run: CoverRun, open_start: bool, open_end: bool, always: bool) -> str:
    first, last = run.first - open_start, run.last + open_end
    if first == last and not always:
        return f"({column} = '{run.period.format(first)}')"
    return f"({column} BETWEEN '{run.period.format(first)}' AND '{run.period.format(last)}')"


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
