"""Replay of column statistics.

They travel as the source computed them, since the data does not change on the way. The target's metastore accepts anything
here, also what damages its state (older or future write ids), so order is the only guard, and order is what replay keeps:
the ALTER_TABLE that raises BASIC_STATS comes before them in the log (reference: hive-replication.md §0c.6, §6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.replication.shaping import is_transactional
from state.errors import MalformedEvent, NotFound


if TYPE_CHECKING:
    from handlers.events import StatisticsUpdated
    from handlers.replication.context import Context


def update(event: StatisticsUpdated, context: Context) -> None:
    """Write the statistics of one table or one partition; an object that is gone (dropped later at the source) is no error."""
    assert event.table is not None
    statistics = event.statistics.copy()
    if statistics.statsDesc is None:
        raise MalformedEvent("statistics without a description", table=event.table, event_id=event.event_id)
    statistics.statsDesc.dbName = context.policy.target_db
    statistics.statsDesc.catName = None
    statistics.engine = statistics.engine or "hive"
    owner = context.seen.table(event.table)
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
