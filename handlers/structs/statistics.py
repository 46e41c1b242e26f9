"""Column statistics of tables and partitions."""
# ruff: noqa: N815 - field names are those of Hive's interface

from __future__ import annotations

from typing import Annotated

from handlers.structs.struct import Struct, i16, i64, resolve


class BooleanColumnStatsData(Struct):
    """Statistics of boolean columns."""

    numTrues: Annotated[i64, 1]
    numFalses: Annotated[i64, 2]
    numNulls: Annotated[i64, 3]
    bitVectors: Annotated[bytes | None, 4] = None


class LongColumnStatsData(Struct):
    """Statistics of integer columns."""

    lowValue: Annotated[i64 | None, 1] = None
    highValue: Annotated[i64 | None, 2] = None
    numNulls: Annotated[i64, 3]
    numDVs: Annotated[i64, 4]
    bitVectors: Annotated[bytes | None, 5] = None
    histogram: Annotated[bytes | None, 6] = None


class DoubleColumnStatsData(Struct):
    """Statistics of floating-point columns."""

    lowValue: Annotated[float | None, 1] = None
    highValue: Annotated[float | None, 2] = None
    numNulls: Annotated[i64, 3]
    numDVs: Annotated[i64, 4]
    bitVectors: Annotated[bytes | None, 5] = None
    histogram: Annotated[bytes | None, 6] = None


class StringColumnStatsData(Struct):
    """Statistics of text columns."""

    maxColLen: Annotated[i64, 1]
    avgColLen: Annotated[float, 2]
    numNulls: Annotated[i64, 3]
    numDVs: Annotated[i64, 4]
    bitVectors: Annotated[bytes | None, 5] = None


class BinaryColumnStatsData(Struct):
    """Statistics of binary columns."""

    maxColLen: Annotated[i64, 1]
    avgColLen: Annotated[float, 2]
    numNulls: Annotated[i64, 3]
    bitVectors: Annotated[bytes | None, 4] = None


class Decimal(Struct):
    """``unscaled`` is a big-endian two's complement integer."""

    unscaled: Annotated[bytes, 1]
    scale: Annotated[i16, 3]


class DecimalColumnStatsData(Struct):
    """Statistics of decimal columns."""

    lowValue: Annotated[Decimal | None, 1] = None
    highValue: Annotated[Decimal | None, 2] = None
    numNulls: Annotated[i64, 3]
    numDVs: Annotated[i64, 4]
    bitVectors: Annotated[bytes | None, 5] = None
    histogram: Annotated[bytes | None, 6] = None


class Date(Struct):
    """A date as days since 1970-01-01."""

    daysSinceEpoch: Annotated[i64, 1]


class DateColumnStatsData(Struct):
    """Statistics of date columns."""

    lowValue: Annotated[Date | None, 1] = None
    highValue: Annotated[Date | None, 2] = None
    numNulls: Annotated[i64, 3]
    numDVs: Annotated[i64, 4]
    bitVectors: Annotated[bytes | None, 5] = None
    histogram: Annotated[bytes | None, 6] = None


class Timestamp(Struct):
    """A moment as seconds since 1970-01-01."""

    secondsSinceEpoch: Annotated[i64, 1]


class TimestampColumnStatsData(Struct):
    """Statistics of timestamp columns."""

    lowValue: Annotated[Timestamp | None, 1] = None
    highValue: Annotated[Timestamp | None, 2] = None
    numNulls: Annotated[i64, 3]
    numDVs: Annotated[i64, 4]
    bitVectors: Annotated[bytes | None, 5] = None
    histogram: Annotated[bytes | None, 6] = None


class ColumnStatisticsData(Struct):
    """A union: exactly one field is set."""

    booleanStats: Annotated[BooleanColumnStatsData | None, 1] = None
    longStats: Annotated[LongColumnStatsData | None, 2] = None
    doubleStats: Annotated[DoubleColumnStatsData | None, 3] = None
    stringStats: Annotated[StringColumnStatsData | None, 4] = None
    binaryStats: Annotated[BinaryColumnStatsData | None, 5] = None
    decimalStats: Annotated[DecimalColumnStatsData | None, 6] = None
    dateStats: Annotated[DateColumnStatsData | None, 7] = None
    timestampStats: Annotated[TimestampColumnStatsData | None, 8] = None


class ColumnStatisticsObj(Struct):
    """Statistics of one column."""

    colName: Annotated[str, 1]
    colType: Annotated[str, 2]
    statsData: Annotated[ColumnStatisticsData, 3]


class ColumnStatisticsDesc(Struct):
    """The table or partition that the statistics belong to; ``partName`` is unset for a table."""

    isTblLevel: Annotated[bool, 1]
    dbName: Annotated[str, 2]
    tableName: Annotated[str, 3]
    partName: Annotated[str | None, 4] = None
    lastAnalyzed: Annotated[i64 | None, 5] = None
    catName: Annotated[str | None, 6] = None


class ColumnStatistics(Struct):
    """Statistics of several columns of one table or partition."""

    statsDesc: Annotated[ColumnStatisticsDesc, 1]
    statsObj: Annotated[list[ColumnStatisticsObj], 2]
    isStatsCompliant: Annotated[bool | None, 3] = None
    engine: Annotated[str | None, 4] = None


class SetPartitionsStatsRequest(Struct):
    """Sets statistics: exactly one object per request, except for ``set_aggr_stats_for``."""

    colStats: Annotated[list[ColumnStatistics], 1]
    needMerge: Annotated[bool | None, 2] = None
    writeId: Annotated[i64 | None, 3] = None
    validWriteIdList: Annotated[str | None, 4] = None
    engine: Annotated[str | None, 5] = None


class SetPartitionsStatsResponse(Struct):
    """Always true."""

    result: Annotated[bool, 1]


class TableStatsRequest(Struct):
    """Requests the statistics of a table."""

    dbName: Annotated[str, 1]
    tblName: Annotated[str, 2]
    colNames: Annotated[list[str], 3]
    catName: Annotated[str | None, 4] = None
    validWriteIdList: Annotated[str | None, 5] = None
    engine: Annotated[str | None, 6] = None
    id: Annotated[i64 | None, 7] = None


class TableStatsResult(Struct):
    """Statistics by column; columns without statistics are omitted."""

    tableStats: Annotated[list[ColumnStatisticsObj], 1]
    isStatsCompliant: Annotated[bool | None, 2] = None


class PartitionsStatsRequest(Struct):
    """Requests the statistics of partitions."""

    dbName: Annotated[str, 1]
    tblName: Annotated[str, 2]
    colNames: Annotated[list[str], 3]
    partNames: Annotated[list[str], 4]
    catName: Annotated[str | None, 5] = None
    validWriteIdList: Annotated[str | None, 6] = None
    engine: Annotated[str | None, 7] = None


class PartitionsStatsResult(Struct):
    """Statistics by partition name."""

    partStats: Annotated[dict[str, list[ColumnStatisticsObj]], 1]
    isStatsCompliant: Annotated[bool | None, 2] = None


resolve()
