"""Replay of column statistics and of their deletion. The mark of accurate ones is in ``accuracy_marks``.

Replay copies the source's statistics, because they describe the same data. The target's metastore accepts any
statistics, even those that damage its state (older or future write ids). Only the order of events protects
it, which replay keeps: the ALTER_TABLE that raises BASIC_STATS comes before them in the log (reference:
hive-replication.md §0c.6, §6).
"""

from __future__ import annotations

from contextlib import suppress

from handlers.events import StatisticsDeleted, StatisticsUpdated, TableAltered
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.target.objects import (
    BASIC,
    build_statistics,
    is_transactional,
    list_accurate,
    replayed_write_id,
)
from handlers.structs.objects import Table
from handlers.structs.statistics import ColumnStatistics
from state.errors import InvalidRequest, MalformedEvent, NotFound


def update(event: StatisticsUpdated, context: Context) -> None:
    """Write the statistics of a table or partition; do nothing if it is gone, because a later event dropped
    it.
    """
    assert event.table is not None
    statistics = event.statistics.copy()
    if statistics.statsDesc is None:
        raise MalformedEvent("the statistics have no description", table=event.table, event_id=event.event_id)
    statistics.statsDesc.dbName = context.policy.target_db
    statistics.statsDesc.catName = None
    statistics.engine = statistics.engine or "hive"
    try:
        write_id = replayed_write_id(event.write_id, context.table_cache.table(event.table))
        _write(statistics, event.table, write_id, context)
    except NotFound:
        return
    except InvalidRequest:
        if not _drop_unknown_columns(statistics, event.table, context):
            raise
        if statistics.statsObj:
            _write(statistics, event.table, write_id, context)


def delete(event: StatisticsDeleted, context: Context) -> None:
    """Delete the statistics of a column; do nothing if they are missing or the table was dropped.

    Hive refuses the deletion for transactional tables, so no source logs it. An event without a column
    deleted all statistics in Hive 3.1, and none in 4.2; the source's present statistics show which.
    """
    assert event.table is not None
    try:
        owner = context.table_cache.table(event.table)
    except NotFound:
        return
    if is_transactional(owner):
        return
    for column in [event.column] if event.column else _find_deleted_columns(event, owner, context):
        with suppress(NotFound):
            _delete_column(event, column, context)


def _delete_column(event: StatisticsDeleted, column: str, context: Context) -> None:
    assert event.table is not None
    db = context.policy.target_db
    if event.partition_name:
        context.target.delete_partition_statistics(db, event.table, event.partition_name, column)
    else:
        context.target.delete_table_statistics(db, event.table, column)


def _find_deleted_columns(event: StatisticsDeleted, owner: Table, context: Context) -> list[str]:
    """Return the columns whose statistics the target still has and the source no longer has."""
    assert event.table is not None
    table, name = event.table, event.partition_name
    columns = [column.name for column in owner.sd.cols or []]

    def read(metastore: Metastore, db: str) -> set[str]:
        if name:
            statistics = metastore.partition_statistics(db, table, [name], columns).get(name, [])
        else:
            statistics = metastore.table_statistics(db, table, columns)
        return {each.colName for each in statistics}

    at_source: set[str] = set()
    with suppress(NotFound):
        at_source = read(context.source, context.policy.source_db)
    return sorted(read(context.target, context.policy.target_db) - at_source)


def _write(statistics: ColumnStatistics, table: str, write_id: int | None, context: Context) -> None:
    assert statistics.statsDesc is not None
    write = (
        context.target.update_table_statistics
        if statistics.statsDesc.isTblLevel
        else context.target.update_partition_statistics
    )
    write(statistics, write_id=write_id, valid_write_ids=context.valid_up_to(table, write_id))


def _drop_unknown_columns(statistics: ColumnStatistics, table: str, context: Context) -> bool:
    """Remove the statistics of columns that the target's table does not have; return whether there were any.

    A repeated event may find its columns dropped or renamed, if the later ALTER_TABLE was applied before a
    restart.
    """
    columns = {(column.name or "").lower() for column in context.table_cache.table(table).sd.cols or []}
    before = statistics.statsObj or []
    statistics.statsObj = [each for each in before if (each.colName or "").lower() in columns]
    return len(statistics.statsObj) < len(before)


def restore_after_rename(event: TableAltered, table: str, context: Context) -> None:
    """Write the statistics of a renamed table to it again, if they were accurate at the source before the
    rename.

    A rename moves the statistics of the table's columns, and marks them as accurate again only at the end,
    after its event. Hive 4.2 does that by a separate call, which it logs at the source; no event shows the
    behaviour of 4.0 and 4.1. (Partitions keep their mark.)
    """
    before, after = event.before.value, event.after.value
    accurate = list_accurate(after.parameters)
    columns = sorted(list_accurate(before.parameters) - accurate - {BASIC})
    if not columns or BASIC not in accurate:
        return
    write_id = replayed_write_id(event.write_id, after)
    valid = context.valid_up_to(table, write_id)
    columns_statistics = context.target.table_statistics(context.policy.target_db, table, columns)
    if columns_statistics:
        statistics = build_statistics(context.policy, table, columns_statistics)
        context.target.update_table_statistics(statistics, write_id=write_id, valid_write_ids=valid)
