"""Compares the rows of both sides of a table (``handlers.replication.verification.verifier.CompareRows``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.replication.verification.findings import Difference, Findings, NotCompared
from handlers.replication.verification.reading import PAGE
from handlers.replication.verification.row_files import find_row_files
from state.errors import Unsupported
from streaming.jvm_errors import NETWORK, find_cause, read_causes, run_error
from streaming.rows.row_reader import RowSummary, TableRows, find_format, summarize_rows


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from handlers.replication.verification.reading import OneTable


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Compares rows through one Spark session."""

    spark: SparkSession

    def __call__(self, source: OneTable, target: OneTable, findings: Findings) -> int | None:
        """Add a difference for every partition whose rows differ; return the number of rows at the source.

        A table whose rows Spark cannot read at the source is counted as not compared; the result is None.
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
        """Return the rows of the target, or why they cannot be read although those of the source can."""
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
            if find_cause(causes := read_causes(error), NETWORK) and (found := run_error(causes)):
                raise found from error
            raise _Unreadable(_first_cause(str(error))) from error


class _Unreadable(Exception):  # noqa: N818 - an outcome, never raised out of this module
    """Spark failed to read the files of one side."""


def _first_cause(text: str) -> str:
    """Return the line of Spark's message that says what failed."""
    lines = [line for line in text.splitlines() if "Exception" in line] or [text]
    return lines[0][:300]


def _pages(table: OneTable) -> Iterator[list[str]]:
    names = table.partition_names() if table.is_partitioned else [""]
    for start in range(0, len(names), PAGE):
        yield names[start : start + PAGE]


def _compare(source: dict[str, RowSummary], target: dict[str, RowSummary] | str) -> Iterator[Difference]:
    """Yield the partitions of both sides whose rows differ; a missing partition is a difference of its own."""
    if isinstance(target, str):
        yield Difference("rows", "", f"{sum(each.count for each in source.values()):,} rows", target)
        return
    for name in sorted(source.keys() & target.keys()):
        if source[name] != target[name]:
            yield Difference("rows", name, str(source[name]), str(target[name]))
