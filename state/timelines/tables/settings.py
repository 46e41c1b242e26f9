"""Settings of a table's timelines: its partition columns, those that hold time, and the reading of their
values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from state.errors import BadInput, StateCorrupt
from state.timelines.periods import UpdatePeriod, detect_period
from state.timelines.storage_forms import ENDS_AND_HOLES
from state.timelines.table_properties import read_time_columns


SENTINELS: Final = ("9999-12-31", "9999-12", "9999", "1970-01-01")
"""Values that writers commonly use for "no date"."""
_DAY_LENGTH: Final = 10
_WITH_WEEKS: Final = (
    UpdatePeriod.YEARLY,
    UpdatePeriod.MONTHLY,
    UpdatePeriod.WEEKLY,
    UpdatePeriod.DAILY,
    UpdatePeriod.HOURLY,
    UpdatePeriod.MINUTELY,
    UpdatePeriod.SECONDLY,
)
"""Made once: naming the members of an enum for each value takes longer than reading the value."""
_WITH_ISO_WEEKS: Final = tuple(
    UpdatePeriod.WEEKLY_ISO if period is UpdatePeriod.WEEKLY else period for period in _WITH_WEEKS
)
ODD_SHARE_MAX: Final = 0.01
"""The share of values that are not times in a detected time column."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings of one table.

    If ``periods`` is empty, the period comes from each partition's own parameter, or else from the form of
    its value. A value of seven characters is then a month and one of nineteen a second, so a table of
    quarters must name its periods.
    """

    partition_columns: tuple[str, ...]
    """All partition columns, in the table's order."""
    time_columns: tuple[str, ...]
    """The columns that hold time, in the spelling of the property keys."""
    periods: tuple[UpdatePeriod, ...] = ()
    iso_weeks: bool = False
    form: str = ENDS_AND_HOLES.name
    """Storage form of timelines whose properties name none."""
    jump_max: int | None = None
    sentinels: tuple[str, ...] = SENTINELS
    """Values that stand for "no date", and everything within them: never times, and so never neighbours of
    others."""

    def __post_init__(self) -> None:
        """Refuse time columns that are not partition columns."""
        names = {name.lower() for name in self.partition_columns}
        unknown = [name for name in self.time_columns if name.lower() not in names]
        if unknown or not self.time_columns:
            raise BadInput("time columns must be partition columns", unknown=unknown, columns=sorted(names))

    @property
    def is_sole(self) -> bool:
        """Whether a time column is the only partition column and each value exists at most once."""
        return len(self.partition_columns) == 1

    def candidate_periods(self) -> tuple[UpdatePeriod, ...]:
        """Return the periods to try, in order, for a value without a parameter."""
        return self.periods or (_WITH_ISO_WEEKS if self.iso_weeks else _WITH_WEEKS)

    def read(self, text: str, period: UpdatePeriod | None) -> tuple[UpdatePeriod, int] | None:
        """Return (period, ordinal) of a value, or None if it is not a time, is a sentinel, or is of a
        disregarded period.
        """
        if text in self.sentinels or text[:_DAY_LENGTH] in self.sentinels:
            return None
        if period is UpdatePeriod.WEEKLY and self.iso_weeks:
            period = UpdatePeriod.WEEKLY_ISO
        if period is not None and self.periods and period not in self.periods:
            return None
        for candidate in (period,) if period is not None else self.candidate_periods():
            ordinal = candidate.parse_or_none(text)
            if ordinal is not None:
                return candidate, ordinal
        return None

    def to_json(self) -> dict[str, object]:
        """Return plain values that ``from_json`` reads."""
        return asdict(self) | {"periods": [period.name for period in self.periods]}

    @staticmethod
    def from_json(values: Mapping[str, object]) -> TableSettings:
        """Read the output of ``to_json``; raise StateCorrupt for anything else."""
        try:
            plain = json.loads(json.dumps(dict(values)))
            plain["periods"] = tuple(UpdatePeriod[name] for name in plain["periods"])
            plain["partition_columns"] = tuple(plain["partition_columns"])
            plain["time_columns"] = tuple(plain["time_columns"])
            plain["sentinels"] = tuple(plain.get("sentinels", SENTINELS))
            return TableSettings(**plain)
        except (KeyError, TypeError, BadInput) as error:
            raise StateCorrupt("the stored table settings cannot be read", reason=str(error)) from error


def find_lens_columns(properties: Mapping[str, str], partition_columns: Iterable[str]) -> tuple[str, ...]:
    """Return the time columns that the table's own properties
    declare and that are partition columns of the table.
    """
    names = {name.lower() for name in partition_columns}
    return tuple(name for name in read_time_columns(properties) if name.lower() in names)


def detect_time_columns(
    partition_columns: Iterable[str],
    specs: Iterable[Mapping[str, str]],
    ignored: Iterable[str],
    known: Iterable[str] = (),
) -> list[str]:
    """Return the columns whose values in ``specs`` are valid partition values; none if there are no specs.

    One value in a hundred may be something else. ``ignored`` are values without meaning for this decision,
    such as ``__HIVE_DEFAULT_PARTITION__``. Columns of bare years do not count, because four digits are too
    often a plain number. A column in ``known`` is an earlier result; a single time is sufficient to keep it.
    """
    skipped = set(ignored)
    candidates = [
        period
        for period in TableSettings(("x",), ("x",)).candidate_periods()
        if period is not UpdatePeriod.YEARLY
    ]
    before = {name.lower() for name in known}
    values = [{name: text for name, text in spec.items() if text not in skipped} for spec in specs]

    def is_time(column: str) -> bool:
        found = [detect_period(spec[column], candidates) is not None for spec in values if column in spec]
        odd = found.count(False)
        return len(found) > odd and (odd <= ODD_SHARE_MAX * len(found) or column.lower() in before)

    return [column for column in partition_columns if is_time(column)]
