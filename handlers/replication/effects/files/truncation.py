"""Replay of TRUNCATE, by the same call as at the source;
a transactional table gets an empty base with the same write id.

Its files stay for the readers of older snapshots. HiveServer2 requests this by an option of the call
(``hive.acid.truncate.usebase``); without it, the metastore removes all files in the directory before the end
of the transaction, including those of another table there. If the transaction aborts, readers ignore the base
until Hive forgets the abort, and then see an empty table. That is so on both sides, and the base therefore
stays.

TRUNCATE of Hive 3.1 has no write id, and removes the files at once, while it keeps all writers out
(reference: hive-3.1-source.md §2). The target then removes the files of the same tables or partitions. Hive 4
requires a write id for the statistics, so it gets the highest one allocated before the event. The table needs
a load instead (``files_in_place``) if it has no write id, or if the target may have rows of later writes,
because a policy without its state repeats the event. Early copies for later writes do not exist: a truncation
is a look-ahead barrier (``coming_events``). Without a replica of the rows, there is nothing to truncate.

The metastore refuses to truncate a plain table or partition whose directory is missing ("File … does not
exist", ``HMSHandler.truncateTableInternal``). It creates the directory with a table or partition, but not
with a change of their location, and a user may have removed it. Tideline therefore creates an empty one and
repeats the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from handlers.replication.context import Context
from handlers.replication.effects import accuracy_marks
from handlers.replication.effects.files.plain_files import has_directory, make_directory
from handlers.replication.target.objects import is_transactional, partition_key_names
from state.errors import InvalidRequest


KEEP_FILES: Final = {"truncateSkipDataDeletion": "true"}
"""Environment of a truncation that adds an empty base (``HMSHandler.truncateTableInternal``); a plain table
would keep its rows."""


def find_bare_write_id(table: str, context: Context) -> int | None:
    """Return the write id for the truncation of a transactional table by an event without a write id; None
    if the target may have rows of later writes, or the table has no write id.
    """
    load = context.tables.loads.get(table)
    mark = context.tables.write_ids.high_water_mark(f"{context.policy.source_db}.{table}")
    mark = max(mark, 0 if load is None else load.write_id)
    (present,) = context.target.valid_write_ids([f"{context.policy.target_db}.{table}"])
    later = present.high_water_mark - mark
    invisible = sum(write_id > mark for write_id in (*present.open, *present.aborted))
    return mark if mark and later <= invisible else None


def truncate_table(name: str, write_id: int | None, context: Context) -> None:
    """Truncate a table with all its partitions; raise NotFound if it does not exist."""
    _truncate(name, None, write_id, context)
    accuracy_marks.follow_truncated_table(name, write_id, context)


def truncate_partitions(table: str, names: Sequence[str], write_id: int | None, context: Context) -> None:
    """Truncate partitions; raise NotFound if one does not exist."""
    _truncate(table, list(names), write_id, context)
    accuracy_marks.follow_truncated_partitions(table, names, write_id, context)


def _truncate(table: str, names: list[str] | None, write_id: int | None, context: Context) -> None:
    environment = None if write_id is None else KEEP_FILES
    if write_id is None and is_transactional(context.table_cache.table(table)):
        if not context.policy.copies_rows(table):
            return
        write_id = find_bare_write_id(table, context)
    call = partial(_call, table, names, write_id, environment, context)
    try:
        call()
    except InvalidRequest:
        if not _make_missing_directories(table, names, context):
            raise
        call()


def _call(
    table: str,
    names: list[str] | None,
    write_id: int | None,
    environment: Mapping[str, str] | None,
    context: Context,
) -> None:
    context.target.truncate_table(
        context.policy.target_db,
        table,
        partition_names=names,
        write_id=write_id,
        valid_write_ids=context.valid_up_to(table, write_id),
        environment=environment,
    )


def _make_missing_directories(table: str, names: list[str] | None, context: Context) -> bool:
    """Create the missing directories of the truncated objects; return whether there were any."""
    missing = [place for place in _list_places(table, names, context) if not has_directory(context, place)]
    for place in missing:
        make_directory(context, place)
    return bool(missing)


def _list_places(table: str, names: list[str] | None, context: Context) -> list[str]:
    cache = context.table_cache
    if not partition_key_names(cache.table(table)):
        return [cache.location(table)]
    if names is None:
        names = context.target.partition_names(context.policy.target_db, table)
    return list(cache.locations(table, names).values())
