"""Reads what a batch needs besides its one pass: a sample before it, and footers and misfits after it.

None of this reads the whole source again. The sample is small, and taken only while some requested key has no
column. All other reads are of the batch's own staged files, and in these only of the few rows with
``_rescued``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from state.columns.slots import RESCUED, Layout
from streaming.batch.footers import FooterReader, Kind
from streaming.batch.observations import FileCounts, Misfits
from streaming.batch.routing import TO, parse_destination, route_rows
from streaming.split.file_columns import write_columns
from streaming.split.parse_schema import quote
from streaming.split.split_plan import MALFORMED
from streaming.split.splitter import split
from streaming.table.value_counts import count_retained_values


if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from streaming.batch.footers import Footer
    from streaming.batch.records import BatchPlan
    from streaming.settings import FlatSettings
    from streaming.storage.port import Storage
    from streaming.table.flat_table import HourPartition


SAMPLE_BYTES_MAX: Final = 100 * 1024
"""Samples omit longer records, because they must fit into the driver's memory."""


@dataclass(frozen=True, slots=True)
class Sampler:
    """Reads samples of raw rows and of files in one Spark session."""

    spark: SparkSession
    settings: FlatSettings
    storage: Storage
    footers: FooterReader = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "footers", FooterReader(self.spark))

    def sample(self, raw: DataFrame, plan: BatchPlan) -> dict[int, list[str]]:
        """Return the texts of some rows of ``raw``, by the hour to which they are routed."""
        bare = replace(plan, layout=Layout.new())
        small = raw.filter(f"size <= {SAMPLE_BYTES_MAX}")
        routed = route_rows(self.settings, bare, small).select(TO, "value")
        texts: dict[int, list[str]] = defaultdict(list)
        for row in _collect_some(routed, self.settings.limits.sample_rows):
            hour = parse_destination(row[TO])
            if hour is not None:
                texts[hour].append(row["value"])
        return dict(texts)

    def read_counts(self, files: Sequence[str]) -> list[FileCounts]:
        """Return the counts in the footers of the files, by position."""
        return [_counts(self.footers.read(path)) for path in files]

    def sample_misfits(self, files: Sequence[str], rescued: int, layout: Layout) -> Misfits:
        """Return a sample of the rows with ``_rescued``. ``files`` contain ``rescued`` such rows."""
        if not rescued:
            return Misfits(0, ())
        small = self._read_rescued(files, layout).filter(f"octet_length({RESCUED}) <= {SAMPLE_BYTES_MAX}")
        texts = _collect_some(small, self.settings.limits.sample_rows)
        return Misfits(rescued, tuple(row[RESCUED] for row in texts))

    def copy_malformed(self, files: Sequence[str], directory: str, layout: Layout) -> list[str]:
        """Write the raw texts of malformed rows in ``files`` to ``directory``; return the written files."""
        texts = self._read_rescued(files, layout).withColumnRenamed(RESCUED, "value")
        bare = split(texts, Layout.new(), keep=["value"]).selectExpr(f"value AS {RESCUED}", MALFORMED)
        rows = bare.filter(MALFORMED).select(RESCUED).coalesce(1)
        write_columns(rows, Layout.new(), directory, options={"compression": self.settings.compression})
        return self.list_files(directory)

    def find_filled(self, partitions: Sequence[HourPartition], slots: Collection[int]) -> frozenset[int]:
        """Return which of ``slots`` hold a value in some file, by position as Hive reads."""
        values = count_retained_values(partitions, self.storage, self.footers.values_by_position)
        return frozenset(slot for slot in slots if slot < len(values) and values[slot])

    def list_files(self, directory: str) -> list[str]:
        """Return the data files of a directory in order."""
        return [
            f"{directory}/{entry.name}"
            for entry in self.storage.list(directory)
            if entry.name.endswith(".orc")
        ]

    def _read_rescued(self, files: Sequence[str], layout: Layout) -> DataFrame:
        """Return the rows with ``_rescued``. The schema has every column, because Spark refuses a file
        without names under a shorter schema.
        """
        schema = ", ".join(f"{quote(slot.name)} string" for slot in layout.slots)
        rows = self.spark.read.schema(schema).orc(list(files)).select(RESCUED)
        return rows.filter(f"{RESCUED} IS NOT NULL")


def _collect_some(rows: DataFrame, rows_max: int) -> list[Row]:
    """Return at most ``rows_max`` rows.

    The limit comes last in the plan. Anywhere else, Spark would give it a number that is part of the
    generated code, and compile the code again for every batch.
    """
    return rows.limit(rows_max).collect()


def _counts(footer: Footer) -> FileCounts:
    columns = list(footer.columns.values())
    bounds = {
        slot: (int(column.least), int(column.most))
        for slot, column in enumerate(columns)
        if column.kind is Kind.INTEGER and column.least is not None and column.most is not None
    }
    return FileCounts(footer.rows, tuple(column.values for column in columns), bounds)
