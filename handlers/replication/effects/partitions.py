"""Replay of partition events: add, alter, rename, truncate and drop.

Replay records partitions that an open transaction touches, because Hive omits some of them in its own write
events (reference: hive-replication.md §0c.2). When the transaction commits, a listing at the source finds
their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from handlers.events import Embedded, PartitionsAdded, PartitionsAltered, PartitionsDropped
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.context import Context
from handlers.replication.effects import accuracy_marks
from handlers.replication.effects.avro_schemas import SchemaFiles
from handlers.replication.effects.files import leftovers, moves, truncation
from handlers.replication.effects.files.plain_files import copy_first_files, mirror_directory, record_copy
from handlers.replication.target.objects import (
    KEEP_STATISTICS,
    format_partition_name,
    is_external,
    is_transactional,
    map_external_location,
    owns_data,
    partition_key_names,
    replayed_write_id,
    to_target_partition,
)
from handlers.structs.objects import Partition, Table
from state.errors import InvalidRequest, NotFound
from state.pieces import in_pieces


def add(event: PartitionsAdded, context: Context) -> None:
    """Add the partitions, keeping existing ones unchanged, and copy the files of plain ones.

    Decodes and sends ``BATCH`` of them at a time, because an event may contain tens of thousands.
    """
    for piece in in_pieces(event.partitions, BATCH):
        some = replace(event, partitions=piece)
        _add_some(some, context)
        some.forget_values()


def _add_some(event: PartitionsAdded, context: Context) -> None:
    assert event.table is not None
    owner = context.table_cache.table(event.table)
    names = [name_partition(item.value, owner) for item in event.partitions]
    record_touched(event.db, event.table, event.partitions, names, context)
    schemas = SchemaFiles(context)
    partitions = [
        to_target_partition(
            schemas.place(item.copy()),
            context.policy,
            moves.locate_partition(item.value, name, event.owner, context, event.table),
        )
        for item, name in zip(event.partitions, names, strict=True)
    ]
    accuracy_marks.remove_unreliable(partitions, owner, context.source)
    leftovers.clear_partitions(owner, names, context)
    context.target.add_partitions(
        context.policy.target_db, event.table, partitions, environment=KEEP_STATISTICS
    )
    if is_transactional(owner) or not context.policy.copies_rows(event.table):
        if len(names) > 1 and any(partition.writeId for partition in partitions):
            context.table_cache.locations(event.table, names)  # for the write events, which come one by one
        return
    locations = context.table_cache.locations(event.table, names)
    for item, name in zip(event.partitions, names, strict=True):
        location = locations.get(name) or context.table_cache.location(event.table, name)
        copy_first_files(context, event.files.get(name, ()), item.value.sd.location, location, owner=owner)
    record_copy(event.table, owner, event.event_id, context)


def add_one(partition: Partition, table: str, context: Context) -> None:
    """Add a partition that a write event names but that does not exist (hive-replication.md §3.4)."""
    owner = context.table_cache.table(table)
    leftovers.clear_partitions(owner, [name_partition(partition, owner)], context)
    policy = context.policy
    location = map_external_location(partition.sd.location, policy) if is_external(owner) else None
    added = to_target_partition(SchemaFiles(context).place(partition), policy, location)
    accuracy_marks.remove_unreliable([added], owner, context.source)
    context.target.add_partitions(policy.target_db, table, [added], environment=KEEP_STATISTICS)


def alter(event: PartitionsAltered, context: Context) -> None:
    """Apply the change: a truncation, a rename, or new contents of the partitions."""
    assert event.table is not None
    owner = context.table_cache.table(event.table)
    names = [name_partition(item.value, owner) for item in event.after]
    if event.truncate:
        truncation.truncate_partitions(event.table, names, replayed_write_id(event.write_id, owner), context)
    elif event.before is not None and event.before.value.values != event.after[0].value.values:
        rename(event, event.before.value, owner, context)
        moves.complete_renamed_partition(event, event.before.value, owner, context)
    else:
        record_touched(event.db, event.table, event.after, names, context)
        _replace(event, names, owner, context)


def _replace(event: PartitionsAltered, names: Sequence[str], owner: Table, context: Context) -> None:
    """Replace the target's partitions by the event's; skip partitions that do not exist.

    Their locations stay, except for plain partitions that the source moved; replay copies the files of these
    first.
    """
    assert event.table is not None
    write_id = replayed_write_id(event.write_id, owner)
    partitions: list[Partition] = []
    present: list[str] = []
    moved: list[str] = []
    locations = context.table_cache.locations(event.table, names)
    schemas = SchemaFiles(context)
    for item, name in zip(event.after, names, strict=True):
        location = locations.get(name)
        if location is None:
            continue
        located = moves.locate_partition(item.value, name, event.owner, context, event.table)
        if located is not None and moves.is_moved(location, located):
            if context.policy.copies_rows(event.table):
                mirror_directory(context, item.value.sd.location, located)
            moved.append(name)
            location = located
        partition = to_target_partition(schemas.place(item.copy()), context.policy, location)
        partition.writeId = write_id
        partitions.append(partition)
        present.append(name)
    if moved:
        record_copy(event.table, owner, event.event_id, context)
    if not partitions:
        return
    accuracy_marks.keep_partition_marks(partitions, present, owner, write_id, context)
    for name in moved:
        context.table_cache.forget_partition(event.table, name)
    context.target.alter_partitions(
        context.policy.target_db,
        event.table,
        partitions,
        write_id=write_id,
        valid_write_ids=context.valid_up_to(event.table, write_id),
        environment=KEEP_STATISTICS,
    )
    if write_id is not None:
        accuracy_marks.note_mixed_marks(event.table, [item.value for item in event.after], names, context)


def rename(event: PartitionsAltered, before: Partition, owner: Table, context: Context) -> None:
    """Give a partition its new values; the metastore moves the directory of one whose files Hive owns.

    A repeated event finds the partition renamed and does nothing.
    """
    assert event.table is not None
    keys = partition_key_names(owner)
    old = format_partition_name(keys, list(before.values or []))
    after = event.after[0].copy()
    try:
        location = context.table_cache.location(event.table, old)
    except NotFound:
        context.table_cache.location(event.table, format_partition_name(keys, list(after.values or [])))
        return
    renamed = to_target_partition(SchemaFiles(context).place(after), context.policy, location)
    write_id = replayed_write_id(event.write_id, owner)
    renamed.writeId = write_id
    accuracy_marks.keep_partition_marks([renamed], [old], owner, write_id, context)
    rename = partial(
        context.target.rename_partition,
        context.policy.target_db,
        event.table,
        list(before.values or []),
        renamed,
        valid_write_ids=context.valid_up_to(event.table, write_id),
    )
    try:
        rename()
    except InvalidRequest:
        moved = f"{owner.sd.location}/{format_partition_name(keys, list(after.values or []))}"
        if not moves.replace_by_new_place(event, old, owner, context) and not leftovers.make_room(
            location, moved, context
        ):
            raise
        rename()
    finally:
        context.table_cache.forget(event.table)


def drop(event: PartitionsDropped, context: Context) -> None:
    """Drop the partitions, without data that Hive does not own; skip partitions that do not exist."""
    assert event.table is not None
    try:
        owner = context.table_cache.table(event.table)
    except NotFound:
        return
    keys = partition_key_names(owner)
    names = [format_partition_name(keys, [spec[key] for key in keys]) for spec in event.specs]
    for name in names:
        context.table_cache.forget_partition(event.table, name)
    with suppress(NotFound):
        _drop(event, names, owner, context)
    leftovers.remove_dropped_partitions(owner, names, context)


def _drop(event: PartitionsDropped, names: Sequence[str], owner: Table, context: Context) -> None:
    """Drop the partitions in one call. For a single partition, the call for one takes the metastore a
    third of the time.
    """
    db, table = context.policy.target_db, event.table or ""
    if len(names) == 1:
        (spec,) = event.specs
        values = [spec[key] for key in partition_key_names(owner)]
        context.target.drop_partition(db, table, values, delete_data=owns_data(owner), if_exists=True)
    else:
        context.target.drop_partitions(db, table, names, delete_data=owns_data(owner), if_exists=True)


def record_touched(
    db: str | None,
    table: str,
    partitions: Sequence[Embedded[Partition]],
    names: Sequence[str],
    context: Context,
) -> None:
    """Record partitions whose object contains a write id as touched by the transaction of that write id,
    if the table's rows have a replica.
    """
    if not context.policy.copies_rows(table or ""):
        return
    for item, name in zip(partitions, names, strict=True):
        if item.value.writeId:
            context.tables.write_ids.touch_partition(f"{db}.{table}", item.value.writeId, name)


def remember_touched(event: PartitionsAdded | PartitionsAltered, context: Context) -> None:
    """Record the touched partitions of an event that the target already has; the event's table provides the
    partition keys.
    """
    if event.owner is None or event.table is None:
        return
    items = event.partitions if isinstance(event, PartitionsAdded) else event.after
    names = [name_partition(item.value, event.owner.value) for item in items]
    record_touched(event.db, event.table, items, names, context)


def name_partition(partition: Partition, owner: Table) -> str:
    """Return the partition's name according to the owner's partition columns."""
    return format_partition_name(partition_key_names(owner), list(partition.values or []))
