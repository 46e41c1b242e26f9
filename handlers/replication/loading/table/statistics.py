"""Statistics of loaded tables and partitions, as the source computed them.

The load copies outdated column statistics as well: Hive estimates with them, and a truncation after the load
makes the source return them again. Whether they are accurate is in the mark, which the definitions bring
after them (``adjust_statistics``). Statistics of later writes follow in the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from handlers.replication.loading.table.snapshot import TableSnapshot
from handlers.replication.loading.table.tools import LoadTools
from handlers.replication.target.objects import ACCURATE, build_statistics
from handlers.structs.objects import Table
from handlers.structs.statistics import ColumnStatistics
from state.transactions.valid_write_ids import ValidWriteIds


def read_table_statistics(table: str, snapshot: TableSnapshot, tools: LoadTools) -> list[ColumnStatistics]:
    """Return the column statistics of a table without partitions."""
    assert snapshot.table is not None
    columns = tools.source.table_statistics(tools.policy.source_db, table, _columns(snapshot.table))
    return [build_statistics(tools.policy, table, columns)] if columns else []


def read_partition_statistics(
    table: str, names: Sequence[str], snapshot: TableSnapshot, tools: LoadTools
) -> list[ColumnStatistics]:
    """Return the column statistics of the named partitions."""
    assert snapshot.table is not None
    statistics = tools.source.partition_statistics(
        tools.policy.source_db, table, names, _columns(snapshot.table)
    )
    return [
        build_statistics(tools.policy, table, columns, name)
        for name in names
        if (columns := statistics.get(name))
    ]


def list_partitions(statistics: Sequence[ColumnStatistics]) -> set[str]:
    """Return the names of the partitions that the statistics describe."""
    return {each.statsDesc.partName or "" for each in statistics}


def write_statistics(
    table: str, statistics: Sequence[ColumnStatistics], snapshot: TableSnapshot, tools: LoadTools
) -> None:
    """Write the statistics of a table, or those of several partitions in one call."""
    if not statistics:
        return
    write_id, valid = snapshot.write_id or None, _valid_text(table, snapshot, tools)
    if statistics[0].statsDesc.isTblLevel:
        tools.target.update_table_statistics(statistics[0], write_id=write_id, valid_write_ids=valid)
    else:
        tools.target.set_partition_statistics(statistics, write_id=write_id, valid_write_ids=valid)


def adjust_statistics(
    parameters: dict[str, str], write_id: int | None, valid: ValidWriteIds | None
) -> int | None:
    """Remove the mark of accuracy from statistics of a write id that the snapshot does not contain;
    return the id to store.
    """
    if valid is None or not write_id or write_id < 1:
        return None
    if valid.is_visible(write_id):
        return write_id
    parameters.pop(ACCURATE, None)
    return None


def _columns(table: Table) -> list[str]:
    return [column.name for column in table.sd.cols or []]


def _valid_text(table: str, snapshot: TableSnapshot, tools: LoadTools) -> str | None:
    if snapshot.write_id == 0:
        return None
    return ValidWriteIds(f"{tools.policy.target_db}.{table}", snapshot.write_id).format()
