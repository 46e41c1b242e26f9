"""What ORC files say of themselves: rows, and per column the number of values and the bounds of numbers.

The writer counts all of that anyway. So what a batch held costs one small read per file afterwards, instead of hundreds of
aggregates in the query that splits it (at 300 columns those doubled its cost, docs/SPLITTING.md). The read goes through ORC's
own library in Spark's JVM, hence on every file system that Spark can write to, and takes a few calls per file however many
columns there are: the statistics come over as one JSON text.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import starmap, zip_longest
from typing import TYPE_CHECKING, Any, Final

from state.columns.types import NOTHING, Evidence, integers
from state.errors import FilesUnavailable, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession


class Kind(StrEnum):
    """What ORC keeps statistics of; integers of all widths are one kind."""

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
"""Which statistic only this kind has, or only it and those before it."""


@dataclass(frozen=True, slots=True)
class ColumnFooter:
    """One column of a file, or of several together."""

    kind: Kind
    values: int
    """How many are not NULL."""
    least: float | None = None
    """The least number, an ``int`` in an integer column; None elsewhere and where there is no value. So is ``most``."""
    most: float | None = None

    def join(self, other: ColumnFooter) -> ColumnFooter:
        """Return both together. A column that was widened into another kind keeps its counts and is of the wider kind."""
        bounds = [each for each in (self, other) if each.least is not None and each.most is not None]
        least = min((each.least for each in bounds if each.least is not None), default=None)
        most = max((each.most for each in bounds if each.most is not None), default=None)
        kind = self.kind if self.kind is other.kind else _wider(self.kind, other.kind)
        return ColumnFooter(kind, self.values + other.values, least, most)

    @property
    def evidence(self) -> Evidence:
        """What the values prove of the type that their key needs. A text can be anything: it proves nothing."""
        if not self.values:
            return NOTHING
        if self.kind is Kind.INTEGER and self.least is not None and self.most is not None:
            return integers(int(self.least), int(self.most))
        return Evidence(has_floats=self.kind is Kind.DOUBLE, has_booleans=self.kind is Kind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Footer:
    """What one file holds, or several together, column by column in the order of the file."""

    rows: int
    columns: Mapping[str, ColumnFooter]

    def join(self, other: Footer) -> Footer:
        """Return both together; columns that one of them lacks are the other's."""
        columns = dict(self.columns)
        for name, column in other.columns.items():
            columns[name] = columns[name].join(column) if name in columns else column
        return Footer(self.rows + other.rows, columns)

    def check(self) -> None:
        """Assert that no column has more values than there are rows, and that bounds are in order."""
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
        """Return what one file holds. FilesUnavailable where it cannot be read, StateCorrupt where it is no flat ORC file."""
        orc = self._jvm.org.apache.orc.OrcFile
        with _errors(path):
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
        """Return what all the files hold together."""
        joined = EMPTY
        for path in paths:
            joined = joined.join(self.read(path))
        return joined

    def values_by_position(self, paths: Iterable[str]) -> tuple[int, ...]:
        """Return how many values each column has by its position, as Hive reads; files with fewer columns end earlier."""
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


@contextmanager
def _errors(path: str) -> Iterator[None]:
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception)[:500]
        if error.java_exception.getClass().getName().endswith("FileFormatException"):
            raise StateCorrupt("a file of a flat table is no ORC file", path=path, reason=reason) from error
        raise FilesUnavailable("an ORC file cannot be read", path=path, reason=reason) from error
    except Py4JError as error:
        raise FilesUnavailable("Spark's JVM did not answer", path=path, reason=str(error)[:500]) from error
