"""Replay of column statistics, and the end of those whose rows never come.

They travel as the source computed them, since the data does not change on the way. The target's metastore accepts anything
here, also what damages its state (older or future write ids), so order is the only guard, and order is what replay keeps:
the ALTER_TABLE that raises BASIC_STATS comes before them in the log (reference: hive-replication.md §0c.6, §6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.replication.target_objects import KEEP_STATISTICS, is_transactional
from state.errors import MalformedEvent, NotFound


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.events import StatisticsUpdated
    from handlers.replication.context import Context
    from handlers.structs.objects import Partition, Table


ACCURATE: Final = "COLUMN_STATS_ACCURATE"


def update(event: StatisticsUpdated, context: Context) -> None:
    """Write the statistics of one table or one partition; an object that is gone (dropped later at the source) is no error."""
    assert event.table is not None
    statistics = event.statistics.copy()
    if statistics.statsDesc is None:
        raise MalformedEvent("statistics without a description", table=event.table, event_id=event.event_id)
    statistics.statsDesc.dbName = context.policy.target_db
    statistics.statsDesc.catName = None
    statistics.engine = statistics.engine or "hive"
    owner = context.table_cache.table(event.table)
    write_id = event.write_id if is_transactional(owner) and event.write_id else None
    write = (
        context.target.update_table_statistics
        if statistics.statsDesc.isTblLevel
        else context.target.update_partition_statistics
    )
    try:
        write(
            statistics,
            write_id=write_id,
            valid_write_ids=context.valid_up_to(event.table, write_id) if write_id else None,
        )
    except NotFound:
        return


def mark_inaccurate(table: str, write_id: int, partition_names: Iterable[str], context: Context) -> None:
    """Stop calling statistics accurate that came with ``write_id``, because its rows are not and will not be here.

    Hive logs them before it commits or aborts, and answers ``count(*)`` from them. Of an aborted id the source's readers know
    that it is invalid; a Hive 4 target forgets that within seconds. What is gone by now needs nothing.
    """
    try:
        present = context.target.get_table(context.policy.target_db, table)
    except NotFound:
        return
    if present.partitionKeys:
        _mark_partitions_inaccurate(table, write_id, partition_names, context)
    elif present.writeId == write_id and _remove_accuracy_mark(present):
        context.table_cache.forget(table)
        context.target.alter_table(
            context.policy.target_db,
            table,
            present,
            write_id=write_id,
            valid_write_ids=context.valid_up_to(table, write_id),
            environment=KEEP_STATISTICS,
        )


def _mark_partitions_inaccurate(table: str, write_id: int, names: Iterable[str], context: Context) -> None:
    disclaimed: list[Partition] = []
    for name in names:
        try:
            partition = context.target.get_partition_by_name(context.policy.target_db, table, name)
        except NotFound:
            continue
        if partition.writeId == write_id and _remove_accuracy_mark(partition):
            disclaimed.append(partition)
    if disclaimed:
        context.target.alter_partitions(
            context.policy.target_db,
            table,
            disclaimed,
            write_id=write_id,
            valid_write_ids=context.valid_up_to(table, write_id),
            environment=KEEP_STATISTICS,
        )


def _remove_accuracy_mark(item: Table | Partition) -> bool:
    """Take the mark of accuracy off ``item``; tell whether it was there."""
    return (item.parameters or {}).pop(ACCURATE, None) is not None
