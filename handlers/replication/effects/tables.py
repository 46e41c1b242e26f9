"""Replay of table events: create, alter, rename, truncate and drop.

Each is idempotent: after a crash, replay applies the events since the last recorded position again, and
existing objects stay unchanged.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress

from handlers.events import TableAltered, TableCreated, TableDropped
from handlers.replication.context import Context
from handlers.replication.effects import accuracy_marks, cascades, statistics
from handlers.replication.effects.avro_schemas import SchemaFiles
from handlers.replication.effects.constraints import keep_constraints
from handlers.replication.effects.files import leftovers, moves, truncation
from handlers.replication.effects.files.plain_files import (
    copy_first_files,
    mirror_directory,
    note_copy,
    record_copy,
)
from handlers.replication.policy.locations import list_row_directories, names_locations
from handlers.replication.policy.renames import Rename
from handlers.replication.policy.replicability import is_view, require_write_ids
from handlers.replication.target.objects import (
    KEEP_STATISTICS,
    is_external,
    is_plain_managed,
    is_transactional,
    map_external_location,
    owns_data,
    partition_key_names,
    replayed_write_id,
    to_target_table,
    translate_plain_table,
)
from handlers.structs.objects import Table
from state.errors import AlreadyExists, InvalidRequest, NotFound, TargetDiverged


def create(event: TableCreated, context: Context) -> None:
    """Create the table, and copy the rows of a CREATE TABLE AS SELECT."""
    require_write_ids(event.after.value, context.source.hive_version)
    source = SchemaFiles(context).place(event.after.copy())
    location = map_external_location(source.sd.location, context.policy) if is_external(source) else None
    target_table = to_target_table(source, context.policy, location)
    accuracy_marks.remove_unreliable([target_table], target_table, context.source)
    target_table.writeId = None
    context.table_cache.forget(_name(target_table))
    try:
        context.target.create_table(target_table, environment=KEEP_STATISTICS)
    except AlreadyExists:
        _require_same_kind(translate_plain_table(event.after.copy(), context.target), context)
    else:
        leftovers.clear_table(_name(target_table), context)
    if location is None:
        _place_properties(event.after.value, context)
    _copy_first_rows(event, context)


def _place_properties(source: Table, context: Context) -> None:
    """Set the properties of the target's table that depend on its location, once the metastore has chosen or
    changed the location.
    """
    if is_view(source) or not names_locations(source):
        return
    name = _name(source)
    table = context.table_cache.table(name)
    with_schemas = SchemaFiles(context).place(source.copy())
    placed = to_target_table(with_schemas, context.policy, table.sd.location)
    present = table.copy()
    if present.sd.serdeInfo is not None and placed.sd.serdeInfo is not None:
        present.sd.serdeInfo.parameters = placed.sd.serdeInfo.parameters
    present.sd.parameters, present.sd.skewedInfo = placed.sd.parameters, placed.sd.skewedInfo
    before = source.parameters or {}
    moved = {key: value for key, value in (placed.parameters or {}).items() if before[key] != value}
    present.parameters = {**(present.parameters or {}), **moved}
    if present != table:
        context.table_cache.forget(name)
        context.target.alter_table(context.policy.target_db, name, present, environment=KEEP_STATISTICS)


def _copy_first_rows(event: TableCreated, context: Context) -> None:
    """Copy the rows of a CREATE TABLE AS SELECT into a plain table;
    those of a transactional one come with the commit.
    """
    table = event.after.value
    if is_view(table) or is_transactional(table) or table.partitionKeys:
        return
    if not context.policy.copies_rows(_name(table)):
        return
    owner = context.table_cache.table(_name(table))
    directories = zip(list_row_directories(table), list_row_directories(owner), strict=False)
    for number, (directory, place) in enumerate(directories):
        copy_first_files(context, () if number else event.files, directory, place, owner=owner)
    record_copy(_name(table), owner, event.event_id, context)


def _require_same_kind(source: Table, context: Context) -> None:
    """Raise TargetDiverged if the target's table of this name
    cannot be the result of an earlier replay of this event.
    """
    target = context.table_cache.table(_name(source))
    expected = (is_transactional(source), is_external(source), partition_key_names(source))
    present = (is_transactional(target), is_external(target), partition_key_names(target))
    if expected != present:
        raise TargetDiverged(
            "the target has a table of this name but of another kind",
            table=f"{context.policy.target_db}.{_name(source)}",
            value=present,
            reason=f"the source creates {expected}",
            hint="Drop the table on the target and run 'tideline release POLICY TABLE', or exclude it "
            "from the policy.",
        )


def alter(event: TableAltered, context: Context) -> None:
    """Apply the change: a truncation, a rename, or new contents of the table's definition."""
    if event.truncate:
        after = event.after.value
        truncation.truncate_table(_name(after), replayed_write_id(event.write_id, after), context)
    elif _name(event.before.value) != _name(event.after.value):
        rename(event, context)
    else:
        _replace(event, _name(event.after.value), context)


def rename(event: TableAltered, context: Context) -> None:
    """Rename the table and apply its other changes; the metastore moves the directory of a managed table."""
    old, new = _name(event.before.value), _name(event.after.value)
    try:
        if is_plain_managed(event.after.value):
            _translate_present(old, context)
        try:
            _replace(event, old, context)
        except InvalidRequest:
            if not moves.clear_new_place(event, context):
                raise
            _replace(event, old, context)
    except NotFound:
        context.table_cache.table(new)  # a repeated event; raises NotFound again if neither name exists
    context.tables.rename(old, new)
    cascades.complete_renamed(event, new, context)
    if moves.has_left_base(event.before.value, event.after.value, context):
        moves.return_to_base(event.before.value, event.after.value, context)
        note_copy(new, event.event_id, context)
    else:
        moves.complete_renamed_table(event, context)
    if not is_transactional(event.after.value):
        _place_properties(event.after.value, context)
    statistics.restore_after_rename(event, new, context)
    accuracy_marks.complete_renamed(event, new, context)


def _translate_present(name: str, context: Context) -> None:
    """Make the target's table external again if an earlier
    version of Tideline has altered it into a managed one.

    Hive would not move the directory of such a table, and a later table of the old name would get the same
    directory.
    """
    present = context.target.get_table(context.policy.target_db, name)
    if translate_plain_table(present.copy(), context.target) != present:
        context.table_cache.forget(name)
        translated = translate_plain_table(present, context.target)
        context.target.alter_table(context.policy.target_db, name, translated, environment=KEEP_STATISTICS)


def _replace(event: TableAltered, current_name: str, context: Context) -> None:
    """Replace the target's table by the event's, at the same location unless the source moved its table
    (``moves``).

    The write id must be in the table as well, and the write-id list must include it; otherwise the metastore
    silently drops the accuracy of the statistics (reference: hive-4-metastore.md §3).
    """
    before, after = event.before.value, event.after.value
    location, moved = _location_after(event, current_name, context)
    copies = moved and location is not None and not after.partitionKeys
    if copies and location is not None and context.policy.copies_rows(current_name):
        mirror_directory(context, after.sd.location, location)
        record_copy(current_name, after, event.event_id, context)
    left = context.table_cache.location(current_name) if moved else None
    source = SchemaFiles(context).place(event.after.copy())
    target_table = translate_plain_table(to_target_table(source, context.policy, location), context.target)
    write_id = replayed_write_id(event.write_id, target_table)
    target_table.writeId = write_id
    accuracy_marks.keep_table_mark(target_table, current_name, write_id, context)
    cascade = cascades.CASCADE if cascades.is_cascaded(event, current_name, context) else {}
    context.table_cache.forget(current_name)
    context.target.alter_table(
        context.policy.target_db,
        current_name,
        target_table,
        write_id=write_id,
        valid_write_ids=context.valid_up_to(current_name, write_id),
        environment={**KEEP_STATISTICS, **cascade},
    )
    if is_transactional(target_table) and current_name == _name(target_table):
        # The metastore changes its input only for tables without transactions.
        context.table_cache.put(current_name, target_table)
    if left is not None and not before.partitionKeys:
        moves.remove_left_files(context, left, owner=after)


def _location_after(event: TableAltered, current_name: str, context: Context) -> tuple[str | None, bool]:
    """Return the target's location after the change, and whether it changes, which it does only if the source
    moved its table. A rename is not such a move: the same call moves the directory of a managed table on both
    sides.
    """
    before, after = event.before.value, event.after.value
    if after.sd.location is None:
        return None, False
    current = context.table_cache.location(current_name)
    if _name(before) != _name(after):
        return current, False
    location = moves.locate_table(before, after, current, context)
    return location, moves.is_moved(current, location)


def rename_kept(move: Rename, context: Context) -> None:
    """Rename a table that replay does not follow and change nothing else; do nothing if the target has none
    of the old name.
    """
    old, new = move.before[1], move.after[1]
    with suppress(NotFound):
        table = context.target.get_table(context.policy.target_db, old)
        table.tableName = new
        context.target.alter_table(context.policy.target_db, old, table, environment=KEEP_STATISTICS)


def rename_quarantined(move: Rename, context: Context) -> None:
    """Rename a quarantined table and change nothing else,
    because its old name may soon belong to another table.
    """
    rename_kept(move, context)
    context.tables.rename(move.before[1], move.after[1])


def drop_renamed_away(move: Rename, context: Context) -> None:
    """Drop a table whose new name is outside of the policy, or is a name under which it has a load, because
    replay skips its later events.
    """
    with keep_constraints(move.after[1], context) if context.policy.covers(*move.after) else nullcontext():
        _drop(move.before[1], context)


def drop(event: TableDropped, context: Context) -> None:
    """Drop the table, without data that Hive does not own (hive-replication.md §5);
    do nothing if it does not exist.
    """
    assert event.table is not None
    _drop(event.table, context)


def _drop(name: str, context: Context) -> None:
    try:
        table = context.table_cache.table(name)
        context.target.drop_table(context.policy.target_db, name, delete_data=owns_data(table))
        leftovers.remove_dropped_table(table, context)
    except NotFound:
        pass
    finally:
        context.table_cache.forget(name)
    context.tables.forget(name)


def _name(table: Table) -> str:
    return (table.tableName or "").lower()
