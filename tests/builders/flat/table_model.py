"""A model of a flat table as its readers see it:
hours with files of columns, read by position (Hive) and by name (Spark).

It writes rows as the splitter does and records the content of every file. After each step it checks that no
reader would see a value under another key, or a type that it cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from state.columns.changes import Evolution, RetainedValues
from state.columns.counts.observations import HourCounts, KeyCounts, Observations
from state.columns.counts.promotion import NO_MISFITS, MisfitCounts
from state.columns.demand import Demand
from state.columns.evolution import decide, promote_to_string
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.slots import HOUR_S, Layout, Slot
from state.columns.types import DOUBLE_EXACT_MAX, NOTHING, ColumnType, Evidence, integers, readers_accept
from tests.builders.flat.columns import BOOLEANS, FLOATS, T0, TEXT


Value = int | float | str
"""A bool, an int, a float or a text."""


@dataclass(frozen=True)
class FileColumn:
    """One column of one file."""

    name: str
    type: ColumnType
    key: KeyPath | None
    values: tuple[Value, ...]


@dataclass
class FlatWorld:
    """The table, its hours and the observations."""

    rules: FlatRules
    layout: Layout = field(default_factory=Layout.new)
    now_hour: int = T0
    files: dict[int, list[list[FileColumn]]] = field(default_factory=dict)
    """Files by hour, with columns in slot order."""
    book: HourCounts = field(default_factory=HourCounts)
    rescued: int = 0

    def write(self, hour: int, rows: Mapping[KeyPath, tuple[Value, ...]], times: int) -> None:
        """Write one file of an hour and observe it, as one batch."""
        count = max((len(values) for values in rows.values()), default=0) * times
        columns, seen = [], {}
        for slot in self.layout.slots:
            values = rows.get(slot.key, ()) if slot.key is not None and slot in self.layout.live else ()
            fitting = tuple(value for value in values if fits(value, slot.type))
            self.rescued += len(values) - len(fitting)
            columns.append(FileColumn(slot.name, slot.type, slot.key if fitting else None, fitting))
        for key, values in rows.items():
            column = self.layout.by_key.get(key)
            bad = 0 if column is None else sum(not fits(value, column.type) for value in values)
            good = len(values) - bad
            kinds = NO_MISFITS
            for value in values:
                if column is not None and not fits(value, column.type):
                    kinds = kinds.join(MisfitCounts.of_value(evidence_of([value]), times))
            seen[key] = KeyCounts(count, good * times, bad * times, evidence_of(values), kinds)
        self.files.setdefault(hour, []).append(columns)
        observed = {hour: Observations(count, 0, seen)}
        self.book = self.book.with_batch(self.book.batch + 1, observed)

    def pass_hours(self, hours: int) -> None:
        """Advance the time and drop partitions beyond the retention."""
        self.now_hour += hours * HOUR_S
        oldest = self.oldest_hour
        self.files = {hour: files for hour, files in self.files.items() if hour >= oldest}
        self.book = self.book.since(oldest)

    @property
    def oldest_hour(self) -> int:
        return self.now_hour - self.rules.retention_days * 24 * HOUR_S

    @property
    def retained(self) -> RetainedValues:
        """The counts in the footers."""
        return RetainedValues.of(
            {
                index: sum(len(file[index].values) for file in files if index < len(file))
                for index in range(len(self.layout.slots))
            }
            for files in self.files.values()
        )

    def decide(self, demand: Demand) -> Evolution:
        return decide(
            self.layout, demand, self.book.window(), self.retained, self.now_hour, self.rules, ["hh"]
        )

    def rewrite(self, index: int) -> None:
        """Rewrite every file with that slot as text, then change its type."""
        for files in self.files.values():
            for file in files:
                if index < len(file):
                    old = file[index]
                    file[index] = FileColumn(old.name, ColumnType.STRING, old.key, old.values)
        self.layout = promote_to_string(self.layout, index)

    def check_readers(self) -> None:
        """Assert that no reader sees a value under another key, misses a value, or reads a type that it
        cannot filter."""
        for files in self.files.values():
            for file in files:
                for index, column in enumerate(file):
                    check_by_position(self.layout.slots[index], column)
                    check_by_name(self.layout, column)


def check_by_position(slot: Slot, column: FileColumn) -> None:
    """Hive: the n-th column of the file is the n-th column of the table."""
    if column.values:
        assert slot.key == column.key, (slot, column)
        check_lossless(slot, column)


def check_by_name(layout: Layout, column: FileColumn) -> None:
    """Spark: columns match by name; filters fail if a number became text, with or without values."""
    for slot in layout.slots:
        if slot.name == column.name:
            assert readers_accept(column.type, slot.type), (slot, column)
            if column.values:
                assert slot.key == column.key, (slot, column)
                check_lossless(slot, column)


def check_lossless(slot: Slot, column: FileColumn) -> None:
    if slot.type is ColumnType.DOUBLE:
        assert all(isinstance(v, float) or abs(int(v)) <= DOUBLE_EXACT_MAX for v in column.values), (
            slot,
            column,
        )


def fits(value: Value, column_type: ColumnType) -> bool:
    """Whether a value fits a column, by the splitter's rule."""
    if column_type is ColumnType.STRING:
        return True
    if isinstance(value, bool):
        return column_type is ColumnType.BOOLEAN
    if isinstance(value, int):
        if column_type is ColumnType.DOUBLE:
            return abs(value) <= DOUBLE_EXACT_MAX
        needed = integers(value, value).type
        return column_type.is_integer and needed <= column_type
    return isinstance(value, float) and column_type is ColumnType.DOUBLE


def evidence_of(values: Iterable[Value]) -> Evidence:
    """The evidence in values."""
    evidence = NOTHING
    for value in values:
        if isinstance(value, bool):
            evidence = evidence.join(BOOLEANS)
        elif isinstance(value, int):
            evidence = evidence.join(integers(value, value))
        else:
            evidence = evidence.join(FLOATS if isinstance(value, float) else TEXT)
    return evidence
