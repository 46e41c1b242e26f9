"""One timeline: which partitions of one table, update period and time column exist.

It is the seed's interface (add, drop, batches, latest, to and from properties) over ``Runs``, with a storage form that
only matters when it is written. All three forms therefore answer alike: adding what is there and dropping what is not are
False and change nothing.

Two things are refused. A partition of another period (PeriodMismatch), and one further from all others than ``jump_max``
periods (LimitExceeded): a stray 1970 or 9999 would make ``latest`` useless and write millions of holes into properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def choose_jump_max(period: UpdatePeriod) -> int:
    """Return 20 years in partitions of the period: more than histories span, less than 1970 or 9999 are away."""
    return 20 * UpdatePeriod.YEARLY.weight_ms // max(period.weight_ms, 1_000)


class Timeline:
    """The partitions of one update period in one time column of one table."""

    __slots__ = ("_queued", "column", "form", "jump_max", "period", "refused", "runs")

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
        """How many partitions were too far from all others."""
        self._queued: set[int] = set()

    @staticmethod
    def from_properties(
        properties: Mapping[str, str], period: UpdatePeriod, column: str, *, jump_max: int | None = None
    ) -> Timeline:
        """Build what a table's properties say, in the form that they name (EndsAndHoles where they name none).

        Raises ConfigError for an unknown form, TimelineInconsistent where the properties are incomplete, contradict
        themselves, or where the keys of another form tell something else than those of the form named.
        """
        own = select_keys(properties, period, column)
        form = find_form(own[STORAGE_CLASS]) if own.get(STORAGE_CLASS) else ENDS_AND_HOLES
        runs = form.read(period, own)
        if runs is None:
            raise TimelineInconsistent(
                "no keys of the form", form=form.name, period=period.lens_name, column=column
            )
        _refuse_contradiction(period, own, form, runs)
        return Timeline(period, column, form=form, runs=runs, jump_max=jump_max)

    def add(self, partition: TimePartition) -> bool:
        """Add one; False where it was there. Raises PeriodMismatch or LimitExceeded."""
        ordinal = self._ordinal(partition)
        self._refuse_jump(ordinal)
        return self.runs.add(ordinal)

    def drop(self, partition: TimePartition) -> bool:
        """Remove one; False where it was not there. Raises PeriodMismatch."""
        return self.runs.drop(self._ordinal(partition))

    def exists(self, partition: TimePartition) -> bool:
        """Whether it is there. Raises PeriodMismatch."""
        return self._ordinal(partition) in self.runs

    def queue(self, partition: TimePartition) -> None:
        """Keep one for ``commit_queued``; it does not exist until then. Raises PeriodMismatch."""
        self._queued.add(self._ordinal(partition))

    def commit_queued(self) -> bool:
        """Add all that is queued, in order; False where one was there before. Nothing queued is True.

        Raises LimitExceeded where one is too far away, with those before it added and the rest forgotten.
        """
        queued, self._queued = sorted(self._queued), set()
        added = [self.add(TimePartition(self.period, ordinal)) for ordinal in queued]
        return all(added)

    def load(self, ordinals: Iterable[int]) -> int:
        """Replace the content and return how many values were refused as strays.

        Where values lie further apart than ``jump_max`` only the largest group stays (the later one where two are
        equal): which came first, and so what a stray is, cannot be told from a listing.
        """
        loaded = Runs.of(ordinals)
        self.runs = _largest_group(loaded, self.jump_max)
        strays = loaded.count() - self.runs.count()
        self.refused += strays
        return strays

    def is_stray(self, ordinal: int) -> bool:
        """Whether a value is further than ``jump_max`` from all that exist; none is where nothing exists."""
        first, last = self.runs.first, self.runs.last
        return (
            first is not None
            and last is not None
            and not first - self.jump_max <= ordinal <= last + self.jump_max
        )

    def latest(self) -> TimePartition | None:
        """The last partition, or None."""
        last = self.runs.last
        return None if last is None else TimePartition(self.period, last)

    def first(self) -> TimePartition | None:
        """The first partition, or None."""
        first = self.runs.first
        return None if first is None else TimePartition(self.period, first)

    def holes(self) -> Iterator[TimePartition]:
        """Yield what is missing between the first and the latest."""
        return (TimePartition(self.period, hole) for gap in self.runs.gaps() for hole in range(*gap))

    def is_empty(self) -> bool:
        """Whether no partition exists."""
        return not self.runs

    def is_consistent(self) -> bool:
        """Whether the invariants hold; they do after any sequence of operations."""
        try:
            self.check()
        except AssertionError:
            return False
        return True

    def to_properties(self) -> dict[str, str]:
        """Return the table properties, full keys, the class last: a reader of half of them sees the old class."""
        start = build_key_prefix(self.period, self.column)
        written = {start + key: value for key, value in self.form.write(self.period, self.runs).items()}
        return written | {start + STORAGE_CLASS: self.form.class_name}

    def copy(self) -> Timeline:
        """Return an independent copy, without what is queued."""
        return Timeline(
            self.period, self.column, form=self.form, runs=self.runs.copy(), jump_max=self.jump_max
        )

    def check(self) -> None:
        """Assert the invariants of the runs, and that both ends can be written as text."""
        self.runs.check()
        for end in (self.first(), self.latest()):
            assert end is None or self.period.parse(str(end)) == end.ordinal, end

    def __iter__(self) -> Iterator[TimePartition]:
        return (TimePartition(self.period, ordinal) for ordinal in self.runs)

    def __repr__(self) -> str:
        return f"Timeline({self.period.name}, {self.column!r}, {self.form.name}, {self.first()}..{self.latest()})"

    def _ordinal(self, partition: TimePartition) -> int:
        if partition.period is not self.period:
            raise PeriodMismatch(
                "the timeline has another period", timeline=self.period.name, given=partition.period.name
            )
        return partition.ordinal

    def _refuse_jump(self, ordinal: int) -> None:
        if self.is_stray(ordinal):
            self.refused += 1
            raise LimitExceeded(
                "a partition too far from all others",
                value=self.period.format(ordinal),
                latest=str(self.latest()),
                limit=self.jump_max,
            )


def _refuse_contradiction(
    period: UpdatePeriod, own: Mapping[str, str], form: StorageForm, runs: Runs
) -> None:
    """Lens changes the class and leaves the old form's keys behind: which of the two is stale cannot be told."""
    for other in list_forms():
        told = None if other is form else other.read(period, own)
        if told and told != runs:
            raise TimelineInconsistent("two forms tell different things", named=form.name, other=other.name)


def _largest_group(runs: Runs, jump_max: int) -> Runs:
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
    """Return the properties that make ``timeline`` stand in ``form``, in the order to write them.

    First the new form's keys with stale chunks of its own emptied, then the keys of the other forms that stand in
    ``properties``, emptied (sizes 0, the rest empty text, because a metastore that merges parameters cannot forget a key),
    and ``storage.class`` last. A reader of any part of the sequence finds the same partitions or a contradiction, never an
    empty timeline.
    ``timeline`` itself does not change: set its ``form`` when the metastore has accepted.
    """
    start = build_key_prefix(timeline.period, timeline.column)
    old = select_keys(properties, timeline.period, timeline.column)
    written = form.blanks(old) | form.write(timeline.period, timeline.runs)
    for other in list_forms():
        if other.class_name != form.class_name:
            written |= other.blanks(old)
    return {start + key: value for key, value in written.items()} | {start + STORAGE_CLASS: form.class_name}


def build_table_properties(
    timelines: Iterable[Timeline], properties: Mapping[str, str], event_id: int
) -> dict[str, str]:
    """Return the properties that say all timelines of a table, as of an event, the flag last.

    The event id is there for compare-and-set, and to recognise the ALTER_TABLE event of this very write.
    """
    written: dict[str, str] = {}
    for timeline in timelines:
        written |= build_form_properties(timeline, timeline.form, properties)
    return written | {APPLIED_EVENT: str(event_id), PRESENT: "true"}
