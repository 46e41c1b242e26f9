"""Column statistics.

The metastore accepts statistics in any order and keeps the last ones, so the caller is responsible for the
order. Statistics of a transactional table need a write id and a write-id list that includes it (reference:
hive-replication.md §0c.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from handlers.metastore.calls import V4_0, Call
from handlers.metastore.session import Session
from handlers.structs.exceptions import (
    InvalidInputException,
    InvalidObjectException,
    MetaException,
    NoSuchObjectException,
)
from handlers.structs.statistics import (
    ColumnStatistics,
    ColumnStatisticsObj,
    PartitionsStatsRequest,
    PartitionsStatsResult,
    SetPartitionsStatsRequest,
    SetPartitionsStatsResponse,
    TableStatsRequest,
    TableStatsResult,
)


_REFUSALS: Final = (NoSuchObjectException, InvalidObjectException, MetaException, InvalidInputException)
_UPDATE_TABLE: Final = Call(
    "update_table_column_statistics_req",
    {"req": SetPartitionsStatsRequest},
    SetPartitionsStatsResponse,
    _REFUSALS,
    changes=True,
    since=V4_0,
)
_UPDATE_TABLE_BEFORE_4: Final = Call(
    "update_table_column_statistics", {"stats_obj": ColumnStatistics}, bool, _REFUSALS, changes=True
)
_UPDATE_PARTITION: Final = Call(
    "update_partition_column_statistics_req",
    {"req": SetPartitionsStatsRequest},
    SetPartitionsStatsResponse,
    _REFUSALS,
    changes=True,
    since=V4_0,
)
_UPDATE_PARTITION_BEFORE_4: Final = Call(
    "update_partition_column_statistics", {"stats_obj": ColumnStatistics}, bool, _REFUSALS, changes=True
)
_DELETE_OF_TABLE: Final = Call(
    "delete_table_column_statistics",
    {"db_name": str, "tbl_name": str, "col_name": str, "engine": str},
    bool,
    (NoSuchObjectException, MetaException, InvalidObjectException, InvalidInputException),
    changes=True,
    since=V4_0,  # older versions have no engine argument
)
_DELETE_OF_PARTITION: Final = Call(
    "delete_partition_column_statistics",
    {"db_name": str, "tbl_name": str, "part_name": str, "col_name": str, "engine": str},
    bool,
    (NoSuchObjectException, MetaException, InvalidObjectException, InvalidInputException),
    changes=True,
    since=V4_0,  # older versions have no engine argument
)
_SET_MANY: Final = Call(
    "set_aggr_stats_for", {"request": SetPartitionsStatsRequest}, bool, _REFUSALS, changes=True
)
_OF_TABLE: Final = Call(
    "get_table_statistics_req",
    {"request": TableStatsRequest},
    TableStatsResult,
    (NoSuchObjectException, MetaException),
    changes=False,
)
_OF_PARTITIONS: Final = Call(
    "get_partitions_statistics_req",
    {"request": PartitionsStatsRequest},
    PartitionsStatsResult,
    (NoSuchObjectException, MetaException),
    changes=False,
)


class StatisticsCalls(Session):
    """Calls about column statistics; the statistics of whole tables and partitions are parameters."""

    def update_table_statistics(
        self, statistics: ColumnStatistics, *, write_id: int | None = None, valid_write_ids: str | None = None
    ) -> None:
        """Set the statistics of some columns of a table;
        raise NotFound if the table or a column is missing.
        """
        self._update(_UPDATE_TABLE, _UPDATE_TABLE_BEFORE_4, statistics, write_id, valid_write_ids)

    def update_partition_statistics(
        self, statistics: ColumnStatistics, *, write_id: int | None = None, valid_write_ids: str | None = None
    ) -> None:
        """Set the statistics of some columns of one partition;
        raise NotFound if the partition or a column is missing.
        """
        self._update(_UPDATE_PARTITION, _UPDATE_PARTITION_BEFORE_4, statistics, write_id, valid_write_ids)

    def delete_table_statistics(self, db: str, table: str, column: str) -> None:
        """Delete the statistics of one column of a table; raise NotFound.

        Hive refuses it for transactional tables (InvalidRequest). The column is required: without it, 4.2
        reports success and deletes nothing.
        """
        self._invoke(_DELETE_OF_TABLE, db, table, column, _ENGINE)

    def delete_partition_statistics(self, db: str, table: str, partition_name: str, column: str) -> None:
        """Delete the statistics of one column of a partition,
        as ``delete_table_statistics``; raise NotFound.
        """
        self._invoke(_DELETE_OF_PARTITION, db, table, partition_name, column, _ENGINE)

    def set_partition_statistics(
        self,
        statistics: Sequence[ColumnStatistics],
        *,
        write_id: int | None = None,
        valid_write_ids: str | None = None,
    ) -> None:
        """Set the statistics of several partitions of one table in one call."""
        self._require_hive_4_for(_SET_MANY.name, write_id, valid_write_ids)
        self._invoke(_SET_MANY, _request(statistics, write_id, valid_write_ids))

    def table_statistics(
        self, db: str, table: str, columns: Sequence[str], *, valid_write_ids: str | None = None
    ) -> list[ColumnStatisticsObj]:
        """Return the available statistics for ``columns`` of a table.

        For a transactional table, the metastore returns statistics only if they are correct for
        ``valid_write_ids``.
        """
        request = TableStatsRequest(
            dbName=db,
            tblName=table,
            colNames=list(columns),
            validWriteIdList=valid_write_ids,
            engine=_ENGINE,
        )
        return self._invoke(_OF_TABLE, request).tableStats

    def partition_statistics(
        self,
        db: str,
        table: str,
        partition_names: Sequence[str],
        columns: Sequence[str],
        *,
        valid_write_ids: str | None = None,
    ) -> dict[str, list[ColumnStatisticsObj]]:
        """Return the available statistics for ``columns``, by partition name; without partitions that have
        none.
        """
        request = PartitionsStatsRequest(
            dbName=db,
            tblName=table,
            colNames=list(columns),
            partNames=list(partition_names),
            validWriteIdList=valid_write_ids,
            engine=_ENGINE,
        )
        return self._invoke(_OF_PARTITIONS, request).partStats

    def _update(
        self,
        call: Call[SetPartitionsStatsResponse],
        before_4: Call[bool],
        statistics: ColumnStatistics,
        write_id: int | None,
        valid_write_ids: str | None,
    ) -> None:
        if self.hive_version < V4_0:
            self._require_hive_4_for(before_4.name, write_id, valid_write_ids)
            self._invoke(before_4, statistics)
        else:
            self._invoke(call, _request([statistics], write_id, valid_write_ids))


_ENGINE: Final = "hive"


def _request(
    statistics: Sequence[ColumnStatistics], write_id: int | None, valid_write_ids: str | None
) -> SetPartitionsStatsRequest:
    return SetPartitionsStatsRequest(
        colStats=list(statistics), writeId=write_id, validWriteIdList=valid_write_ids, engine=_ENGINE
    )
