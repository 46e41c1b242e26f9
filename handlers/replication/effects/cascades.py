"""Whether a change of a table's columns also changed those of its partitions (``ALTER TABLE … CASCADE``).

The metastore changes all partitions in the transaction that changes the table, and logs only the table. A replica that ignored this would
read the new columns of existing partitions as NULL. The event does not say whether the change was cascaded, but the partitions do: the target's
are in the state before the event. If those of the source differ by now, the source has cascaded, and the target does the same by the same call.

A later change of columns, not yet replayed, can make this decision too early. The replica then temporarily shows the result of that later event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.metastore.objects.partitions import BATCH
from handlers.replication.target_objects import changes_columns
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.events import TableAltered
    from handlers.replication.context import Context
    from handlers.structs.objects import Partition


CASCADE: Final = {"CASCADE": "true"}
"""Environment of a change of a table that changes the columns of all its partitions."""
SAMPLE: Final = 5
"""Partitions that are compared. An operator may have changed one of them alone; the change is cascaded if all of them differ."""


def is_cascaded(event: TableAltered, current_name: str, context: Context) -> bool:
    """Whether the source changed the columns of the partitions together with those of the table, which the target has as ``current_name``."""
    before, after = event.before.value, event.after.value
    if not after.partitionKeys or not changes_columns(before, after):
        return False
    try:
        for size in (SAMPLE, BATCH):  # more only if the first were dropped or added again since
            if pairs := list(_pair_partitions(event, current_name, size, context)):
                return all(_columns(ours) != _columns(theirs) for ours, theirs in pairs)
    except NotFound:
        pass  # renamed or dropped since, which a later event brings
    return False


def _pair_partitions(
    event: TableAltered, current_name: str, size: int, context: Context
) -> Iterator[tuple[Partition, Partition]]:
    """Yield partitions of the source that existed before the event, each with the target's."""
    db, source_name = context.policy.target_db, (event.after.value.tableName or "").lower()
    names = context.target.partition_names(db, current_name, limit=size)
    if not names:
        return
    theirs = {
        tuple(each.values or []): each for each in context.target.get_partitions(db, current_name, names)
    }
    for ours in context.source.get_partitions(context.policy.source_db, source_name, names):
        present = theirs.get(tuple(ours.values or []))
        if present is not None and (ours.createTime or 0) <= event.time_s:
            yield ours, present


def _columns(partition: Partition) -> list[tuple[str | None, ...]]:
    return [(column.name, column.type, column.comment) for column in partition.sd.cols or []]
