"""Compares the rows that readers of a Hive table see at the source and on the target, by counts and hashes in
Spark.

``handlers.replication.verification`` calls ``RowComparison`` for each table. It raises failures of the
network. Any other failure of Spark means that the files of one side are unreadable.

Spark has no reader for ACID tables, but it can read their files, which are ORC files of events. A reader sees
the inserted rows of the directories that are visible under its valid write-id list, without rows of write ids
that are open or aborted, and without rows that a visible delete event names. A delete event names a row by
the write id, bucket and number under which it was inserted; these are unique in one partition only.

The hash of a set of rows is the sum of the rows' 64-bit hashes, so it does not depend on order, files or
compactions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from handlers.files.paths import Location, parse_location
from handlers.replication.verification.findings import Difference, Findings, NotCompared
from handlers.replication.verification.reading import PAGE
from handlers.replication.verification.row_files import find_row_files
from state.errors import Unsupported
from state.pieces import in_pieces
from state.value_text import count_text
from streaming.jvm_errors import NETWORK, find_cause, read_causes, run_error
from streaming.split.parse_schema import quote


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from handlers.replication.verification.reading import OneTable
    from handlers.replication.verification.row_files import RowFiles
    from state.transactions.valid_write_ids import ValidWriteIds


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Compares rows through one Spark session."""

    spark: SparkSession

    def __call__(self, source: OneTable, target: OneTable, findings: Findings) -> int | None:
        """Add a difference for every partition whose rows differ; return the number of rows at the source.

        If Spark cannot read the rows at the source, the table counts as not compared, and the result is None.
        """
        count = 0
        for page in _pages(source):
            try:
                ours = self._summarize(source, page)
            except (Unsupported, _Unreadable):
                findings.add([NotCompared("rows")])
                return None
            count += sum(each.count for each in ours.values())
            findings.add(_compare(ours, self._summarize_target(target, page)))
        return count

    def _summarize_target(self, table: OneTable, names: Sequence[str]) -> dict[str, RowSummary] | str:
        """Return the summaries of the target's rows, or the reason why Spark cannot read them. It could read
        those of the source.
        """
        try:
            return self._summarize(table, names)
        except (Unsupported, _Unreadable) as error:
            return f"unreadable: {error}"

    def _summarize(self, table: OneTable, names: Sequence[str]) -> dict[str, RowSummary]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        columns = [(column.name or "", column.type or "") for column in table.table.sd.cols or []]
        how = TableRows(columns, find_format(table.table.sd.inputFormat), table.write_ids)
        try:
            return summarize_rows(self.spark, how, find_row_files(table, names))
        except (Py4JJavaError, PySparkException) as error:
            if find_cause(causes := read_causes(error), NETWORK) and (failure := run_error(causes)):
                raise failure from error
            raise _Unreadable(_first_cause(str(error))) from error


class _Unreadable(Exception):  # noqa: N818 - an outcome, never raised out of this module
    """Spark failed to read the files of one side."""


def _first_cause(text: str) -> str:
    """Return the line of Spark's message that names the failure."""
    lines = [line for line in text.splitlines() if "Exception" in line] or [text]
    return lines[0][:300]


def _pages(table: OneTable) -> Iterator[list[str]]:
    names = table.partition_names() if table.is_partitioned else [""]
    return in_pieces(names, PAGE)


def _compare(source: dict[str, RowSummary], target: dict[str, RowSummary] | str) -> Iterator[Difference]:
    """Yield the partitions that both sides have and whose rows differ. A missing partition is another kind of
    difference.
    """
    if isinstance(target, str):
        yield Difference("rows", "", count_text(sum(each.count for each in source.values()), "row"), target)
        return
    for name in sorted(source.keys() & target.keys()):
        if source[name] != target[name]:
            yield Difference("rows", name, str(source[name]), str(target[name]))


_CHARACTERS: Final = re.compile(r"\b(?:var)?char\s*\(\s*\d+\s*\)", re.IGNORECASE)
_LOCAL_TIME: Final = re.compile(r"\btimestamp with local time zone(?:\('[^']*'\))?", re.IGNORECASE)
_UNREADABLE: Final = re.compile(r"\b(?:uniontype|interval_\w+|void)\b", re.IGNORECASE)
FORMATS: Final = {"orc": "orc", "parquet": "parquet"}
"""Formats that Spark reads, by a part of the name of Hive's input format."""
CONF: Final = {
    # A copied map has its entries in the same order, so equal maps have equal hashes.
    "spark.sql.legacy.allowHashOnMapType": "true",
    # ORC recognizes files of ACID events by their complete schema, and fails if a reader requests a part of
    # it.
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.orc.filterPushdown": "false",
}
"""Settings of the session that reads rows."""
_ALL_COLUMNS: Final = {"orc.force.positional.evolution": "true"}
"""Options with which Spark passes the complete schema to ORC; positions count in events only, not in the rows
inside them."""
_ROW_ID: Final = ("originalTransaction", "bucket", "rowId")
_INSERT: Final = 0
_DIRECTORY: Final = r"/(base|delta|delete_delta)_[^/]+/.*$"


@dataclass(frozen=True, slots=True)
class RowSummary:
    """A summary of the rows of one partition: their number and their hash."""

    count: int = 0
    hash: int = 0

    def __str__(self) -> str:
        """Return a text such as ``12 rows, hash -7``."""
        return f"{count_text(self.count, 'row')}, hash {self.hash}"

    def plus(self, count: int, hash_sum: int) -> RowSummary:
        """Return the combined summary of both."""
        return RowSummary(self.count + count, self.hash + hash_sum)


@dataclass(frozen=True, slots=True)
class TableRows:
    """How to read the files of one table on one side."""

    columns: Sequence[tuple[str, str]]
    """Names and Hive types, without partition columns."""
    format: str
    write_ids: ValidWriteIds | None


def find_format(input_format: str | None) -> str:
    """Return Spark's name of a file format; raise Unsupported."""
    name = (input_format or "").lower()
    for part, spark_format in FORMATS.items():
        if part in name:
            return spark_format
    raise Unsupported(
        "rows of this format cannot be compared", format=input_format, supported=sorted(FORMATS)
    )


def summarize_rows(
    spark: SparkSession, table: TableRows, files: Mapping[str, RowFiles]
) -> dict[str, RowSummary]:
    """Return the visible rows of each partition, by name. Raises Unsupported for other files."""
    summaries = dict.fromkeys(files, RowSummary())
    for name, each in files.items():
        if each.plain and each.deletes:
            raise Unsupported(
                "rows from before the table was transactional have been deleted, and have no row ids in "
                "their files",
                partition=name,
            )
    _add_plain(spark, table, files, summaries)
    _add_events(spark, table, files, summaries)
    return summaries


def _add_plain(
    spark: SparkSession, table: TableRows, files: Mapping[str, RowFiles], summaries: dict[str, RowSummary]
) -> None:
    paths = {parse_location(path): name for name, each in files.items() for path in each.plain}
    if not paths:
        return
    reader = spark.read.schema(to_spark_schema(table.columns))
    rows = reader.format(table.format).load([str(path) for path in paths])
    values = [_column(rows, name) for name, _ in table.columns]
    for place, count, total in _summarize(rows, rows["_metadata.file_path"], values):
        name = _lookup(paths, place)
        summaries[name] = summaries[name].plus(count, total)


def _add_events(
    spark: SparkSession, table: TableRows, files: Mapping[str, RowFiles], summaries: dict[str, RowSummary]
) -> None:
    inserted = [path for each in files.values() for path in each.events]
    if not inserted or table.write_ids is None:
        return
    rows = _read_events(spark, table, inserted, table.write_ids)
    rows = rows.where(rows["operation"] == _INSERT)
    deletes = [path for each in files.values() for path in each.deletes]
    if deletes:
        deleted = _read_events(spark, table, deletes, table.write_ids).select("place", *_ROW_ID)
        rows = rows.join(deleted, ["place", *_ROW_ID], "left_anti")
    roots = {each.root: name for name, each in files.items()}
    values = [rows["row"][name] for name, _ in table.columns]
    for place, count, total in _summarize(rows, rows["place"], values):
        name = _lookup(roots, place)
        summaries[name] = summaries[name].plus(count, total)


def _read_events(
    spark: SparkSession, table: TableRows, paths: Sequence[str], write_ids: ValidWriteIds
) -> DataFrame:
    """Return the events of visible write ids, with their partition's directory as the column ``place``."""
    from pyspark.sql import functions as sql

    rows = spark.read.options(**_ALL_COLUMNS).schema(to_event_schema(table.columns)).orc(list(paths))
    rows = rows.withColumn("place", sql.regexp_replace(rows["_metadata.file_path"], _DIRECTORY, ""))
    visible = rows["currentTransaction"] <= write_ids.high_water_mark
    hidden = [*write_ids.open, *write_ids.aborted]
    if hidden:
        visible &= ~rows["currentTransaction"].isin(hidden)
    return rows.where(visible)


def _summarize(rows: DataFrame, place: Column, values: Sequence[Column]) -> list[tuple[str, int, int]]:
    """Return count and sum of hashes by ``place``. Spark's hash skips nulls, so the hash of each value
    includes whether it is null.
    """
    from pyspark.sql import functions as sql

    parts = [part for value in values for part in (value, value.isNull())]
    hashed = rows.select(place.alias("place"), sql.xxhash64(*parts).cast("decimal(20,0)").alias("hash"))
    summed = hashed.groupBy("place").agg(sql.count("*").alias("count"), sql.sum("hash").alias("hash"))
    return [(each["place"], int(each["count"]), int(each["hash"])) for each in summed.collect()]


def _column(rows: DataFrame, name: str) -> Column:
    return rows[quote(name)]


def _lookup(names: Mapping[Location, str], place: Any) -> str:
    """Return the partition of a location as Spark writes it: some versions escape special characters."""
    location = parse_location(str(place))
    return names[location] if location in names else names[parse_location(unquote(str(place)))]


def to_spark_type(hive_type: str) -> str:
    """Return the type in Spark's spelling; texts of limited length become strings. Raises Unsupported."""
    if _UNREADABLE.search(hive_type):
        raise Unsupported("Spark cannot read the type", type=hive_type[:200])
    return _LOCAL_TIME.sub("timestamp", _CHARACTERS.sub("string", hive_type))


def to_spark_schema(columns: Iterable[tuple[str, str]]) -> str:
    """Return the schema of ``columns``, pairs of name and Hive type."""
    return ", ".join(f"{quote(name)} {to_spark_type(kind)}" for name, kind in columns)


def to_event_schema(columns: Iterable[tuple[str, str]]) -> str:
    """Return the schema of files of ACID events, whose rows have ``columns`` (OrcRecordUpdater)."""
    row = ", ".join(f"{quote(name)}: {to_spark_type(kind)}" for name, kind in columns)
    return (
        "operation int, originalTransaction bigint, bucket int, rowId bigint, currentTransaction bigint, "
        f"row struct<{row}>"
    )
