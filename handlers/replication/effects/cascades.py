"""Whether a change of a table's columns also changed those of its partitions (``ALTER TABLE … CASCADE``).

The metastore changes all partitions in the transaction that changes the table, and logs only the table. A
replica that ignored this would read the new columns of existing partitions as NULL. The event does not say
whether the change cascaded, but the partitions do: the target's are in the state before the event. If those
of the source differ by now, the source has cascaded, and the target does the same by the same call.

A later change of columns, not yet replayed, can make this decision too early. The replica then temporarily
shows the result of that later event.

If the table was renamed since, the source has no table of the name in the event, or another one. The replay
of the rename then compares the partitions, and gives those that differ the columns of the source. If there
are several renames, the last one decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from handlers.events import TableAltered
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.context import Context
from handlers.replication.target.objects import KEEP_STATISTICS, changes_columns
from handlers.replication.target.same_table import is_same_table
from handlers.structs.objects import Partition
from state.errors import NotFound
from state.pieces import in_pieces


CASCADE: Final = {"CASCADE": "true"}
"""Environment of a change of a table that changes the columns of all its partitions."""
SAMPLE: Final = 5
"""Number of partitions to compare. An operator may have changed one of them alone; a cascade makes all of
them differ.
"""


def is_cascaded(event: TableAltered, current_name: str, context: Context) -> bool:
    """Whether the source changed the columns of the partitions together with those of the table,
    which the target has as ``current_name``.
    """
    before, after = event.before.value, event.after.value
    if not after.partitionKeys or not changes_columns(before, after):
        return False
    pairs = _find_pairs(event, current_name, context)
    return bool(pairs) and all(_columns(ours) != _columns(theirs) for ours, theirs in pairs)


def complete_renamed(event: TableAltered, name: str, context: Context) -> None:
    """Give the partitions of a renamed table the columns that they have at the source, if one of the compared
    partitions differs.
    """
    if not event.after.value.partitionKeys:
        return
    if all(_columns(ours) == _columns(theirs) for ours, theirs in _find_pairs(event, name, context)):
        return
    with suppress(NotFound):  # renamed again, or dropped
        _copy_columns(event, name, context)


def _copy_columns(event: TableAltered, name: str, context: Context) -> None:
    db = context.policy.target_db
    names = context.target.partition_names(db, name)
    for piece in in_pieces(names, BATCH):
        changed = []
        for ours, theirs in _pair(event, name, piece, context):
            if _columns(ours) != _columns(theirs):
                theirs.sd.cols = ours.sd.cols
                changed.append(theirs)
        if changed:
            context.target.alter_partitions(db, name, changed, environment=KEEP_STATISTICS)


def _find_pairs(event: TableAltered, name: str, context: Context) -> list[tuple[Partition, Partition]]:
    """Return some partitions of the source that existed before the event, each with its counterpart in the
    target's table ``name``.
    """
    table, policy = event.after.value, context.policy
    try:
        present = context.source.get_table(policy.source_db, (table.tableName or "").lower())
        if not is_same_table(table, present):
            return []
        for size in (
            SAMPLE,
            BATCH,
        ):  # further ones only if the first were dropped, or added again, since the event
            names = context.target.partition_names(policy.target_db, name, limit=size)
            if pairs := list(_pair(event, name, names, context)):
                return pairs
    except NotFound:
        pass  # renamed or dropped since, which a later event brings
    return []


def _pair(
    event: TableAltered, name: str, names: Sequence[str], context: Context
) -> Iterator[tuple[Partition, Partition]]:
    if not names:
        return
    source_name = (event.after.value.tableName or "").lower()
    partitions = context.target.get_partitions(context.policy.target_db, name, names)
    theirs = {tuple(each.values or []): each for each in partitions}
    for ours in context.source.get_partitions(context.policy.source_db, source_name, names):
        present = theirs.get(tuple(ours.values or []))
        if present is not None and (ours.createTime or 0) <= event.time_s:
            yield ours, present


def _columns(partition: Partition) -> list[tuple[str | None, ...]]:
    return [(column.name, column.type, column.comment) for column in partition.sd.cols or []]
