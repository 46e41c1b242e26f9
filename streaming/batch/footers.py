"""Reads ORC footers: the number of rows, and for each column the number of values and the bounds of numbers.

The ORC writer counts all of this anyway. So the content of a batch costs one small read per file, instead of
hundreds of aggregates in the splitting query (at 300 columns these doubled its cost, docs/SPLITTING.md).
ORC's own library in Spark's JVM reads the footers, so Tideline supports every file system that Spark can
write to. A file takes a few calls, however many columns it has, because the JVM returns the statistics as one
JSON text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from itertools import starmap, zip_longest
from typing import TYPE_CHECKING, Any, Final

from state.errors import StateCorrupt
from streaming.split.pushdown_guard import orc_errors


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession


class Kind(StrEnum):
    """The kinds of ORC statistics; integers of all widths are one kind."""

    INTEGER = "integer"
    DOUBLE = "double"
    STRING = "string"
    BOOLEAN = "boolean"


_KIND_BY_STATISTIC: Final = {
    "sumDefined": Kind.INTEGER,
    "trueCount": Kind.BOOLEAN,
    "upperBound": Kind.STRING,
    "sum": Kind.DOUBLE,
}
"""A statistic that identifies each kind, if no earlier kind matches."""


@dataclass(frozen=True, slots=True)
class ColumnFooter:
    """The statistics of one column in one or several files."""

    kind: Kind
    values: int
    """Number of values that are not NULL."""
    least: float | None = None
    """The least number, an ``int`` for integer columns; None for other kinds or without values. ``most`` is
    the greatest."""
    most: float | None = None

    def join(self, other: ColumnFooter) -> ColumnFooter:
        """Return the combined statistics. If the column was widened to another kind, the result has the wider
        kind.
        """
        bounds = [each for each in (self, other) if each.least is not None and each.most is not None]
        least = min((each.least for each in bounds if each.least is not None), default=None)
        most = max((each.most for each in bounds if each.most is not None), default=None)
        kind = self.kind if self.kind is other.kind else _wider(self.kind, other.kind)
        return ColumnFooter(kind, self.values + other.values, least, most)


@dataclass(frozen=True, slots=True)
class Footer:
    """The statistics of one or several files, by column in file order."""

    rows: int
    columns: Mapping[str, ColumnFooter]

    def join(self, other: Footer) -> Footer:
        """Return the combined statistics."""
        columns = dict(self.columns)
        for name, column in other.columns.items():
            columns[name] = columns[name].join(column) if name in columns else column
        return Footer(self.rows + other.rows, columns)

    def check(self) -> None:
        """Assert that no column has more values than rows, and that bounds are in order."""
        for name, column in self.columns.items():
            assert 0 <= column.values <= self.rows, (name, column, self.rows)
            assert (column.least is None) == (column.most is None), (name, column)
            assert column.least is None or column.most is None or column.least <= column.most, (name, column)


EMPTY: Final = Footer(0, {})


class FooterReader:
    """Reads footers through the JVM of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - likewise
        self._mapper = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def read(self, path: str) -> Footer:
        """Return the footer of a file. Raises FilesUnavailable if it is unreadable, StateCorrupt if it is not
        a flat ORC file.
        """
        orc = self._jvm.org.apache.orc.OrcFile
        with orc_errors(path):
            reader = orc.createReader(
                self._jvm.org.apache.hadoop.fs.Path(path), orc.readerOptions(self._conf)
            )
            try:
                parts = [reader.getNumberOfRows(), reader.getSchema().getFieldNames(), reader.getStatistics()]
                text = self._mapper.writeValueAsString(parts)
            finally:
                reader.close()
        return _footer(path, json.loads(text))

    def read_all(self, paths: Iterable[str]) -> Footer:
        """Return the combined footer of all files."""
        joined = EMPTY
        for path in paths:
            joined = joined.join(self.read(path))
        return joined

    def values_by_position(self, paths: Iterable[str]) -> tuple[int, ...]:
        """Return the number of values of each column, by position as Hive reads; older files may have fewer
        columns.
        """
        totals: list[int] = []
        for path in paths:
            counts = [column.values for column in self.read(path).columns.values()]
            totals = list(starmap(int.__add__, zip_longest(totals, counts, fillvalue=0)))
        return tuple(totals)


def _footer(path: str, statistics: list[Any]) -> Footer:
    rows, names, (_root, *columns) = statistics
    if len(names) != len(columns):
        raise StateCorrupt("a file of a flat table has nested columns", path=path, columns=len(names))
    return Footer(rows, dict(zip(names, map(_column, columns), strict=True)))


def _column(statistics: Mapping[str, Any]) -> ColumnFooter:
    kind = next((kind for mark, kind in _KIND_BY_STATISTIC.items() if mark in statistics), Kind.STRING)
    values = statistics["numberOfValues"]
    if not values or kind not in {Kind.INTEGER, Kind.DOUBLE}:
        return ColumnFooter(kind, values)
    number = int if kind is Kind.INTEGER else float
    return ColumnFooter(kind, values, number(statistics["minimum"]), number(statistics["maximum"]))


def _wider(one: Kind, other: Kind) -> Kind:
    return Kind.DOUBLE if {one, other} == {Kind.INTEGER, Kind.DOUBLE} else Kind.STRING
