"""Replay of table events: create, alter, rename, truncate, drop.

Each is idempotent: after a crash the events since the last recorded position come again, and what is there already is left
as it is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from handlers.replication.effects.plain_files import copy_current_files, copy_plain_files
from handlers.replication.target_objects import (
    KEEP_STATISTICS,
    is_external,
    is_transactional,
    is_view,
    map_external_location,
    owns_data,
    partition_key_names,
    to_target_table,
)
from state.errors import AlreadyExists, NotFound, TargetDiverged


if TYPE_CHECKING:
    from handlers.events import TableAltered, TableCreated, TableDropped
    from handlers.replication.context import Context
    from handlers.replication.renames import Rename
    from handlers.structs.objects import Table


def create(event: TableCreated, context: Context) -> None:
    """Create the table where the target wants it (external ones below the policy's base), and copy what a CTAS wrote."""
    if event.after.value.tableType == "MATERIALIZED_VIEW":
        return
    table = event.after.copy()
    location = _source_location(table)
    place = map_external_location(location, context.policy) if is_external(table) else None
    target_table = to_target_table(table, context.policy, place)
    target_table.writeId = None
    context.table_cache.forget(_name(target_table))
    try:
        context.target.create_table(target_table, environment=KEEP_STATISTICS)
    except AlreadyExists:
        _require_same_kind(event.after.value, context)
    _copy_first_rows(event, location, context)


def _copy_first_rows(event: TableCreated, source_place: str | None, context: Context) -> None:
    """Copy what a CREATE TABLE AS put into a plain table; a transactional one's rows come with the commit."""
    table = event.after.value
    if is_view(table) or is_transactional(table) or table.partitionKeys:
        return
    place = context.table_cache.location(_name(table))
    if event.files:
        copy_plain_files(context, event.files, place, owner=table)
    elif is_external(table):
        copy_current_files(context, source_place, place, owner=table)


def _require_same_kind(source: Table, context: Context) -> None:
    """Tell our own earlier creation from a stranger's table of the same name."""
    target = context.table_cache.table(_name(source))
    ours = (is_transactional(source), is_external(source), partition_key_names(source))
    theirs = (is_transactional(target), is_external(target), partition_key_names(target))
    if ours != theirs:
        raise TargetDiverged(
            "a table of this name but of another kind is on the target",
            table=f"{context.policy.target_db}.{_name(source)}",
            value=theirs,
            reason=f"the source creates {ours}",
            hint="Drop the table on the target, or exclude it from the policy; then bootstrap it.",
        )


def alter(event: TableAltered, context: Context) -> None:
    """Apply what changed: a truncation, a rename, or the table as a whole."""
    if event.truncate:
        _truncate(event, context)
    elif _name(event.before.value) != _name(event.after.value):
        rename(event, context)
    else:
        _replace(event, _name(event.after.value), context)


def rename(event: TableAltered, context: Context) -> None:
    """Rename the table, and carry over what else changed; the metastore moves a managed table's directory by itself."""
    old, new = _name(event.before.value), _name(event.after.value)
    try:
        _replace(event, old, context)
    except NotFound:
        context.table_cache.table(new)  # a repetition: raises NotFound again where neither name is there
    context.write_ids.rename_table(f"{event.db}.{old}", f"{event.db}.{new}")
    context.quarantine.rename(old, new)
    context.table_cache.forget(old)
    context.table_cache.forget(new)


def _replace(event: TableAltered, current_name: str, context: Context) -> None:
    """Write the event's table over the target's, which keeps its place.

    The write id has to stand inside the table as well, and the list has to reach it, else the metastore drops the statistics'
    accuracy silently (reference: stack/hive4 README, "Statistics on the target").
    """
    place = _location_after(event, current_name, context)
    target_table = to_target_table(event.after.copy(), context.policy, place)
    write_id = event.write_id if is_transactional(target_table) and event.write_id else None
    target_table.writeId = write_id
    context.table_cache.forget(current_name)
    context.target.alter_table(
        context.policy.target_db,
        current_name,
        target_table,
        write_id=write_id,
        valid_write_ids=context.valid_up_to(current_name, write_id) if write_id else None,
        environment=KEEP_STATISTICS,
    )


def _location_after(event: TableAltered, current_name: str, context: Context) -> str | None:
    """Return the target's place after the change: as before, unless an external table was moved at the source."""
    before, after = event.before.value, event.after.value
    moved = _source_location(before) != _source_location(after)
    if moved and is_external(after) and _name(before) == _name(after):
        return map_external_location(_source_location(after), context.policy)
    return context.table_cache.location(current_name) if _source_location(after) is not None else None


def _truncate(event: TableAltered, context: Context) -> None:
    """Empty the table: an ACID one gets an empty base of the same write id, by the same call as at the source."""
    name = _name(event.after.value)
    write_id = event.write_id if is_transactional(event.after.value) and event.write_id else None
    context.target.truncate_table(
        context.policy.target_db,
        name,
        write_id=write_id,
        valid_write_ids=context.valid_up_to(name, write_id) if write_id else None,
    )


def rename_quarantined(move: Rename, context: Context) -> None:
    """Give a confined table its new name and change nothing else of it: the old one may soon belong to another table."""
    (db, old), (_, new) = move.before, move.after
    with suppress(NotFound):
        kept = context.target.get_table(context.policy.target_db, old)
        kept.tableName = new
        context.target.alter_table(context.policy.target_db, old, kept, environment=KEEP_STATISTICS)
    context.write_ids.rename_table(f"{db}.{old}", f"{db}.{new}")
    context.quarantine.rename(old, new)
    context.table_cache.forget(old)
    context.table_cache.forget(new)


def drop_renamed_away(move: Rename, context: Context) -> None:
    """Drop a table that was renamed out of the policy: nothing would be known of it from now on."""
    _drop(move.before[0], move.before[1], context)


def drop(event: TableDropped, context: Context) -> None:
    """Drop the table; data that Hive does not own stays where it is (§5), and a missing table is no error."""
    assert event.table is not None
    _drop(event.db, event.table, context)


def _drop(db: str | None, name: str, context: Context) -> None:
    try:
        delete_data = owns_data(context.table_cache.table(name))
        context.target.drop_table(context.policy.target_db, name, delete_data=delete_data)
    except NotFound:
        pass
    finally:
        context.table_cache.forget(name)
    context.write_ids.drop_table(f"{db}.{name}")
    context.quarantine.release(name)


def _name(table: Table) -> str:
    return (table.tableName or "").lower()


def _source_location(table: Table) -> str | None:
    return table.sd.location
