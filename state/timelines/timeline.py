"""One timeline: which partitions of one table, update period and time column exist, and its table properties.

A timeline offers Lens' operations (add, drop, batches, latest, to and from properties) over ``Runs``. Its
storage form matters only to the writer, so all three forms behave alike: adding an existing partition and
dropping an absent one return False and change nothing.

It refuses two kinds of partition: one of another period (PeriodMismatch), and a stray, which is further than
``jump_max`` periods from all others (LimitExceeded). A stray 1970 or 9999 would make ``latest`` useless and
write millions of holes into properties.

``build_form_properties`` changes the storage form of one timeline. Lens never got this (LENS-489): it needs a
flag on the whole table, a restart, and reading every partition again. Here the runs in memory are all that
the new form needs, so the change is a pure function from old properties to those to write in one
``alter_table``. No other timeline of the table changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from state.errors import LimitExceeded, PeriodMismatch, TimelineInconsistent
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.storage_forms import ENDS_AND_HOLES, StorageForm, find_form, list_forms
from state.timelines.table_properties import (
    APPLIED_EVENT,
    PRESENT,
    STORAGE_CLASS,
    build_key_prefix,
    select_keys,
)
from state.timelines.time_ranges import TimePartition


_DAYS_IN_20_YEARS: Final = 7_305
PROPERTIES_CHARS_MAX: Final = 4_000_000
"""Longest text of one timeline in table properties: an ``alter_table`` of more takes seconds and a large part
of the metastore's memory."""


def choose_jump_max(period: UpdatePeriod) -> int:
    """Return 20 years in partitions of the period:
    longer than histories, and shorter than the distance to 1970 or 9999.
    """
    if period.weight_ms >= UpdatePeriod.MONTHLY.weight_ms:
        return (
            20 * UpdatePeriod.YEARLY.weight_ms // period.weight_ms
        )  # weights of months and longer are shares of a year
    return _DAYS_IN_20_YEARS * UpdatePeriod.DAILY.weight_ms // max(period.weight_ms, 1_000)


class Timeline:
    """The partitions of one update period in one time column of one table."""

    __slots__ = ("column", "form", "jump_max", "period", "refused", "runs")

    def __init__(
        self,
        period: UpdatePeriod,
        column: str,
        *,
        form: StorageForm = ENDS_AND_HOLES,
        runs: Runs | None = None,
        jump_max: int | None = None,
    ) -> None:
        self.period = period
        self.column = column
        self.form = form
        self.runs = Runs() if runs is None else runs
        self.jump_max = choose_jump_max(period) if jump_max is None else jump_max
        self.refused = 0
        """Number of refused strays."""

    @staticmethod
    def from_properties(
        properties: Mapping[str, str], period: UpdatePeriod, column: str, *, jump_max: int | None = None
    ) -> Timeline:
        """Build from a table's properties, in the form that they name (EndsAndHoles if they name none).

        Raises ConfigError for an unknown form. Raises TimelineInconsistent if the properties are incomplete
        or contradict each other, or if the keys of another form hold other partitions than those of the named
        form.
        """
        own = select_keys(properties, period, column)
        form = find_form(own[STORAGE_CLASS]) if own.get(STORAGE_CLASS) else ENDS_AND_HOLES
        runs = form.read(period, own)
        if runs is None:
            raise TimelineInconsistent(
                "the properties have no keys of the form",
                form=form.name,
                period=period.lens_name,
                column=column,
            )
        _refuse_contradiction(period, own, form, runs)
        return Timeline(period, column, form=form, runs=runs, jump_max=jump_max)

    def add(self, partition: TimePartition) -> bool:
        """Add a partition; return False if it was already there. Raises PeriodMismatch or LimitExceeded."""
        ordinal = self._to_ordinal(partition)
        self._refuse_jump(ordinal)
        return self.runs.add(ordinal)

    def drop(self, partition: TimePartition) -> bool:
        """Remove a partition; return False if it was not there. Raises PeriodMismatch."""
        return self.runs.drop(self._to_ordinal(partition))

    def exists(self, partition: TimePartition) -> bool:
        """Whether the partition exists. Raises PeriodMismatch."""
        return self._to_ordinal(partition) in self.runs

    def load(self, ordinals: Iterable[int]) -> int:
        """Replace the content and return the number of refused strays.

        If values are further apart than ``jump_max``, only the largest group stays (the later one of two
        equal groups). A listing does not show which values came first, and so which ones are strays.
        """
        return self.load_runs(Runs.of(ordinals))

    def load_runs(self, loaded: Runs) -> int:
        """Replace the content as ``load`` does, by runs of all values."""
        self.runs = _select_largest_group(loaded, self.jump_max)
        strays = loaded.count() - self.runs.count()
        self.refused += strays
        return strays

    def is_stray(self, ordinal: int) -> bool:
        """Whether a value is further than ``jump_max`` from all partitions; False for an empty timeline."""
        first, last = self.runs.first, self.runs.last
        return (
            first is not None
            and last is not None
            and not first - self.jump_max <= ordinal <= last + self.jump_max
        )

    def latest(self) -> TimePartition | None:
        """Return the last partition, or None."""
        last = self.runs.last
        return None if last is None else TimePartition(self.period, last)

    def first(self) -> TimePartition | None:
        """Return the first partition, or None."""
        first = self.runs.first
        return None if first is None else TimePartition(self.period, first)

    def to_properties(self) -> dict[str, str]:
        """Return the table properties with full keys, the class last:
        a reader of half of them sees the old class.
        """
        start = build_key_prefix(self.period, self.column)
        written = {start + key: value for key, value in self.form.write(self.period, self.runs).items()}
        return written | {start + STORAGE_CLASS: self.form.class_name}

    def copy(self) -> Timeline:
        """Return an independent copy."""
        return Timeline(
            self.period, self.column, form=self.form, runs=self.runs.copy(), jump_max=self.jump_max
        )

    def check(self) -> None:
        """Assert the invariants of the runs, and that both ends have a text that parses."""
        self.runs.check()
        for end in (self.first(), self.latest()):
            assert end is None or self.period.parse(str(end)) == end.ordinal, end

    def __iter__(self) -> Iterator[TimePartition]:
        return (TimePartition(self.period, ordinal) for ordinal in self.runs)

    def __repr__(self) -> str:
        return (
            f"Timeline({self.period.name}, {self.column!r}, {self.form.name}, "
            f"{self.first()}..{self.latest()})"
        )

    def _to_ordinal(self, partition: TimePartition) -> int:
        if partition.period is not self.period:
            raise PeriodMismatch(
                "the timeline has another period", timeline=self.period.name, given=partition.period.name
            )
        return partition.ordinal

    def _refuse_jump(self, ordinal: int) -> None:
        if self.is_stray(ordinal):
            self.refused += 1
            raise LimitExceeded(
                "the partition is too far from all others",
                value=self.period.format(ordinal),
                latest=str(self.latest()),
                limit=self.jump_max,
            )


def _refuse_contradiction(
    period: UpdatePeriod, own: Mapping[str, str], form: StorageForm, runs: Runs
) -> None:
    """Raise TimelineInconsistent if another form's keys contradict this one: Lens changes the class and
    leaves the old form's keys behind, and nothing shows which of the two is stale.
    """
    for other in list_forms():
        others = None if other is form else other.read(period, own)
        if others and others != runs:
            raise TimelineInconsistent(
                "two storage forms contain different partitions", named=form.name, other=other.name
            )


def _select_largest_group(runs: Runs, jump_max: int) -> Runs:
    groups: list[list[int]] = []
    for start, end in runs.pairs():
        if groups and start - groups[-1][-1] < jump_max:
            groups[-1] += (start, end)
        else:
            groups.append([start, end])
    return max((Runs(group) for group in reversed(groups)), key=Runs.count, default=Runs())


def build_form_properties(
    timeline: Timeline, form: StorageForm, properties: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties that store ``timeline`` in ``form``, in the order in which to write them.

    A reader of any prefix of that order finds the same partitions or a contradiction, never an empty
    timeline:

    1. the keys of the new form, stale chunks empty;
    2. the keys of the other forms in ``properties``, emptied: size 0 or empty text, because a metastore that
       merges parameters cannot remove a key;
    3. ``storage.class``.

    ``timeline`` itself does not change: set its ``form`` after the metastore has accepted the properties.
    Raises LimitExceeded if the form would take too much text.
    """
    length = form.length(timeline.period, timeline.runs)
    if length > PROPERTIES_CHARS_MAX:
        raise LimitExceeded(
            "the timeline is too long for table properties",
            column=timeline.column,
            period=timeline.period.lens_name,
            form=form.name,
            characters=length,
            limit=PROPERTIES_CHARS_MAX,
            hint="Choose another form, for example 'ranges' if many holes are adjacent.",
        )
    start = build_key_prefix(timeline.period, timeline.column)
    old = select_keys(properties, timeline.period, timeline.column)
    # 1. The new form.
    written = form.blanks(old) | form.write(timeline.period, timeline.runs)
    # 2. The other forms, emptied.
    for other in list_forms():
        if other.class_name != form.class_name:
            written |= other.blanks(old)
    # 3. The class.
    return {start + key: value for key, value in written.items()} | {start + STORAGE_CLASS: form.class_name}


def _form_of(own: Mapping[str, str]) -> StorageForm:
    forms = {form.class_name: form for form in list_forms()}
    return forms.get(own.get(STORAGE_CLASS, ""), ENDS_AND_HOLES)


def build_table_properties(
    timelines: Iterable[Timeline],
    properties: Mapping[str, str],
    event_id: int,
    columns: Iterable[str] = (),
    periods: Iterable[UpdatePeriod] = (),
) -> dict[str, str]:
    """Return the properties that store all timelines of a table as of an event, the flag last.

    A timeline of ``columns`` and ``periods`` (none: all) in ``properties`` but not in ``timelines`` has lost
    its last partition. It becomes an empty one; otherwise its readers would still find the dropped
    partitions. The event id serves compare-and-set, and identifies the ALTER_TABLE event that this write
    causes.
    """
    written: dict[str, str] = {}
    present = list(timelines)
    names = {(timeline.period.lens_name, timeline.column) for timeline in present}
    for period, column in itertools.product(tuple(periods) or UpdatePeriod, columns):
        old = {} if (period.lens_name, column) in names else select_keys(properties, period, column)
        if old:
            names.add((period.lens_name, column))
            present.append(Timeline(period, column, form=_form_of(old)))
    for timeline in present:
        written |= build_form_properties(timeline, timeline.form, properties)
    return written | {APPLIED_EVENT: str(event_id), PRESENT: "true"}
