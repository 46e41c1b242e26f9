"""Replay of partition events: add, alter, rename, truncate, drop.

Partitions that an open transaction touches are remembered: Hive forgets some of them in its own write events (reference:
hive-replication.md §0c.2), and their files are then found by listing at the source when the transaction commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.events import Embedded, PartitionsAdded, PartitionsAltered, PartitionsDropped
from handlers.replication.effects.plain_files import copy_current_files, copy_plain_files
from handlers.replication.target_objects import (
    KEEP_STATISTICS,
    is_external,
    is_transactional,
    map_external_location,
    owns_data,
    partition_key_names,
    partition_name,
    to_target_partition,
)
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.replication.context import Context
    from handlers.structs.objects import Partition, Table


def add(event: PartitionsAdded, context: Context) -> None:
    """Add the partitions (those that are there stay), and copy the files of plain ones."""
    assert event.table is not None
    owner = context.table_cache.table(event.table)
    names = [name_of(item.value, owner) for item in event.partitions]
    record_touched(event.db, event.table, event.partitions, names, context)
    target_partition = [_to_target(item, owner, context) for item in event.partitions]
    context.target.add_partitions(
        context.policy.target_db, event.table, target_partition, environment=KEEP_STATISTICS
    )
    if is_transactional(owner):
        return
    for item, name in zip(event.partitions, names, strict=True):
        place = context.table_cache.location(event.table, name)
        files = event.files.get(name, ())
        if files:
            copy_plain_files(context, files, place, owner=owner)
        elif is_external(owner):
            copy_current_files(context, item.value.sd.location, place, owner=owner)


def add_one(partition: Partition, table: str, context: Context) -> None:
    """Add a partition that a write event names but that is not there (§3.4)."""
    owner = context.table_cache.table(table)
    target_partition = to_target_partition(partition, context.policy, _place(partition, owner, context))
    context.target.add_partitions(
        context.policy.target_db, table, [target_partition], environment=KEEP_STATISTICS
    )


def _to_target(item: Embedded[Partition], owner: Table, context: Context) -> Partition:
    partition = item.copy()
    return to_target_partition(partition, context.policy, _place(partition, owner, context))


def _place(partition: Partition, owner: Table, context: Context) -> str | None:
    """Managed partitions lie where the target puts them; external ones below the policy's base."""
    return map_external_location(partition.sd.location, context.policy) if is_external(owner) else None


def alter(event: PartitionsAltered, context: Context) -> None:
    """Apply what changed: a truncation, a rename, or the partitions as a whole."""
    assert event.table is not None
    owner = context.table_cache.table(event.table)
    names = [name_of(item.value, owner) for item in event.after]
    if event.truncate:
        _truncate(event, names, owner, context)
    elif event.before is not None and event.before.value.values != event.after[0].value.values:
        rename(event, event.before.value, owner, context)
    else:
        record_touched(event.db, event.table, event.after, names, context)
        _replace(event, names, owner, context)


def _replace(event: PartitionsAltered, names: Sequence[str], owner: Table, context: Context) -> None:
    """Write the event's partitions over the target's, which keep their places; those that are gone are passed over."""
    assert event.table is not None
    target_partition = []
    for item, name in zip(event.after, names, strict=True):
        try:
            place = context.table_cache.location(event.table, name)
        except NotFound:
            continue
        target_partition.append(to_target_partition(item.copy(), context.policy, place))
    if not target_partition:
        return
    write_id = event.write_id if is_transactional(owner) and event.write_id else None
    for partition in target_partition:
        partition.writeId = write_id
    context.target.alter_partitions(
        context.policy.target_db,
        event.table,
        target_partition,
        write_id=write_id,
        valid_write_ids=context.valid_up_to(event.table, write_id) if write_id else None,
        environment=KEEP_STATISTICS,
    )


def rename(event: PartitionsAltered, before: Partition, owner: Table, context: Context) -> None:
    """Give a partition its new values; the metastore moves a managed one's directory. Already renamed is no error."""
    assert event.table is not None
    keys = partition_key_names(owner)
    old = partition_name(keys, list(before.values or []))
    after = event.after[0].copy()
    try:
        place = context.table_cache.location(event.table, old)
    except NotFound:
        context.table_cache.location(event.table, partition_name(keys, list(after.values or [])))
        return
    target_partition = to_target_partition(after, context.policy, place)
    write_id = event.write_id if is_transactional(owner) and event.write_id else None
    target_partition.writeId = write_id
    context.table_cache.forget(event.table)
    context.target.rename_partition(
        context.policy.target_db,
        event.table,
        list(before.values or []),
        target_partition,
        valid_write_ids=context.valid_up_to(event.table, write_id) if write_id else None,
    )


def _truncate(event: PartitionsAltered, names: Sequence[str], owner: Table, context: Context) -> None:
    """Empty the partitions by the call that emptied them at the source."""
    assert event.table is not None
    write_id = event.write_id if is_transactional(owner) and event.write_id else None
    context.target.truncate_table(
        context.policy.target_db,
        event.table,
        partition_names=list(names),
        write_id=write_id,
        valid_write_ids=context.valid_up_to(event.table, write_id) if write_id else None,
    )


def drop(event: PartitionsDropped, context: Context) -> None:
    """Drop the partitions; data that Hive does not own stays, missing partitions (and a missing table) are no error."""
    assert event.table is not None
    try:
        owner = context.table_cache.table(event.table)
    except NotFound:
        return
    keys = partition_key_names(owner)
    for spec in event.specs:
        values = [spec[key] for key in keys]
        context.table_cache.forget_partition(event.table, partition_name(keys, values))
        try:
            context.target.drop_partition(
                context.policy.target_db, event.table, values, delete_data=owns_data(owner)
            )
        except NotFound:
            continue


def record_touched(
    db: str | None,
    table: str,
    partitions: Sequence[Embedded[Partition]],
    names: Sequence[str],
    context: Context,
) -> None:
    """Remember the partitions that carry a write id (it stands in the partition's object)."""
    for item, name in zip(partitions, names, strict=True):
        if item.value.writeId:
            context.write_ids.touch_partition(f"{db}.{table}", item.value.writeId, name)


def remember_touched(event: PartitionsAdded | PartitionsAltered, context: Context) -> None:
    """Take note of the touched partitions of an event that the target has already; the event's own table names the keys."""
    if event.owner is None or event.table is None:
        return
    items = event.partitions if isinstance(event, PartitionsAdded) else event.after
    names = [name_of(item.value, event.owner.value) for item in items]
    record_touched(event.db, event.table, items, names, context)


def name_of(partition: Partition, owner: Table) -> str:
    """Return the partition's name by the owner's partition columns."""
    return partition_name(partition_key_names(owner), list(partition.values or []))
