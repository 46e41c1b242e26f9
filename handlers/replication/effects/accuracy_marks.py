"""The mark of accurate statistics (``COLUMN_STATS_ACCURATE``),
from which Hive answers ``count(*)`` without reading rows.

Hive logs statistics before their transaction commits or aborts. After an abort, the mark stays at the source,
because readers there know that its write id is invalid. A Hive 4 target forgets this within seconds. So an
abort removes the mark on the target, and from then on the two sides differ until a transaction writes
statistics again.

A later change of the table or partition carries the source's mark. Outside of a transaction it can neither
set nor remove a mark at the source, and Hive refuses it on the target ("Cannot change stats state for a
transactional table"). Such a change therefore keeps the target's value.

A client whose metastore was down may write statistics after Hive has aborted its transaction, and so under a
write id that no open transaction holds. They may count rows that the target never gets. If their numbers
differ from the target's, replay therefore removes the mark.

A truncation removes the mark if a transaction open at its beginning wrote the last statistics, and Hive logs
the truncation with the mark (seen on 4.2). The log does not show this, so replay reads the source's table. If
the table was renamed since, the replay of the rename compares its partitions, because they keep their mark
and no event contains it. The mark of a table without partitions is in the rename's event.

An insert into several partitions, of which one has outdated statistics, may remove the mark of another one
without an event. That is an error of Hive 4.2: it matches names with partitions in another order
(``HMSHandler.updatePartColumnStatsWithMerge``). If such an insert commits, replay compares its partitions
with the source.

Before Hive 4, the marks of transactional tables come without a write id, and their readers ignore them
(``StatsOptimizer``): some statements change rows and leave the mark (reference: hive-3.1-source.md §4). Hive
4 would trust such a mark, so these tables have none on the target.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from handlers.metastore.calls import V4_0
from handlers.metastore.objects.partitions import BATCH
from handlers.replication.target.objects import (
    ACCURATE,
    KEEP_STATISTICS,
    STATISTICS,
    format_partition_name,
    is_transactional,
    partition_key_names,
)
from handlers.replication.target.same_table import is_same_table
from state.errors import NotFound
from state.pieces import in_pieces


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handlers.events import TableAltered
    from handlers.metastore.client import Metastore
    from handlers.replication.context import Context
    from handlers.replication.tables.table_entries import UncheckedMarks
    from handlers.structs.objects import Partition, Table


def remove_unreliable(items: Iterable[Table | Partition], owner: Table, source: Metastore) -> None:
    """Remove the marks of objects of ``owner`` if its source does not name their write."""
    if is_transactional(owner) and source.hive_version < V4_0:
        for item in items:
            if (item.writeId or 0) < 1:
                _remove_mark(item)


def keep_table_mark(table: Table, name: str, write_id: int | None, context: Context) -> None:
    """Give ``table``, the next state of the target's table ``name``, the mark of the present table, unless a
    transaction changes the mark.

    Raises NotFound if the target has no such table.
    """
    remove_unreliable([table], table, context.source)
    if _has_mark(table) and is_transactional(table) and not _is_written(name, write_id, context):
        present = context.target.get_table(context.policy.target_db, name)
        _settle_mark(table, present, is_late=_is_late(name, write_id, context))


def keep_partition_marks(
    partitions: Sequence[Partition],
    names: Sequence[str],
    owner: Table,
    write_id: int | None,
    context: Context,
) -> None:
    """Give the next states of the target's partitions the marks of the present partitions, unless a
    transaction changes them.

    ``names`` are the current names of the partitions, in the same order. A partition that the target lacks
    keeps the mark in its object.
    """
    remove_unreliable(partitions, owner, context.source)
    table = (owner.tableName or "").lower()
    marked = {name: each for name, each in zip(names, partitions, strict=True) if _has_mark(each)}
    if not marked or not is_transactional(owner) or _is_written(table, write_id, context):
        return
    keys, is_late = partition_key_names(owner), _is_late(table, write_id, context)
    for present in context.target.get_partitions(context.policy.target_db, table, list(marked)):
        name = format_partition_name(keys, list(present.values or []))
        _settle_mark(marked[name], present, is_late=is_late)


def follow_truncated_table(table: str, write_id: int | None, context: Context) -> None:
    """Remove the mark of the target's truncated table if the truncation has removed it at the source.

    If the source's table has changed since, the events of these changes carry the mark.
    """
    if write_id is None:
        return
    with suppress(NotFound):
        present = context.source.get_table(context.policy.source_db, table)
        if present.writeId == write_id and not _has_mark(present):
            mark_inaccurate(table, write_id, (), context)


def follow_truncated_partitions(
    table: str, names: Sequence[str], write_id: int | None, context: Context
) -> None:
    """Remove the marks of truncated partitions in the same way; record the partitions that the source has
    changed since, for ``complete_renamed``.
    """
    if write_id is None:
        return
    source_db, partitions = context.policy.source_db, []
    keys = partition_key_names(context.table_cache.table(table))
    with suppress(NotFound):
        partitions = context.source.get_partitions(source_db, table, list(names))
    present = {
        format_partition_name(keys, list(each.values or [])): _has_mark(each)
        for each in partitions
        if each.writeId == write_id
    }
    if unmarked := [name for name, has_mark in present.items() if not has_mark]:
        mark_inaccurate(table, write_id, unmarked, context)
    if changed := set(names) - present.keys():
        context.tables.unchecked_marks.add(table, sorted(changed))


def note_mixed_marks(
    table: str, partitions: Sequence[Partition], names: Sequence[str], context: Context
) -> None:
    """Record the partitions of a change that have the mark, for ``complete_committed``, if other
    partitions of the change do not have it.
    """
    marked = [name for name, each in zip(names, partitions, strict=True) if _has_mark(each)]
    if 0 < len(marked) < len(names):
        context.tables.unchecked_marks.add(table, marked)


def complete_committed(table: str, context: Context) -> None:
    """After the commit of a transaction that wrote recorded partitions, remove those of their marks that
    the source does not have.
    """
    if (unchecked := context.tables.unchecked_marks.get(table)) is None:
        return
    with suppress(NotFound):  # renamed since
        _compare_unchecked(table, unchecked, context)


def complete_renamed(event: TableAltered, name: str, context: Context) -> None:
    """Remove those marks of truncated partitions that the source does not have; their table was renamed to
    ``name``.

    If the source has given the table yet another name, the partitions stay recorded until the replay of that
    rename.
    """
    if (unchecked := context.tables.unchecked_marks.get(name)) is None:
        return
    with suppress(NotFound):
        if not is_same_table(event.after.value, context.source.get_table(context.policy.source_db, name)):
            return
        _compare_unchecked(name, unchecked, context)


def _compare_unchecked(table: str, unchecked: UncheckedMarks, context: Context) -> None:
    names = unchecked.partitions or context.target.partition_names(context.policy.target_db, table)
    for piece in in_pieces(names, BATCH):
        _compare_marks(table, list(piece), context)
    context.tables.unchecked_marks.remove(table)


def _compare_marks(table: str, names: list[str], context: Context) -> None:
    keys = partition_key_names(context.table_cache.table(table))
    unmarked: dict[int, list[str]] = {}
    for each in context.source.get_partitions(context.policy.source_db, table, names):
        if each.writeId and not _has_mark(each):
            name = format_partition_name(keys, list(each.values or []))
            unmarked.setdefault(each.writeId, []).append(name)
    for write_id, changed in unmarked.items():
        mark_inaccurate(table, write_id, changed, context)


def _has_mark(item: Table | Partition) -> bool:
    return ACCURATE in (item.parameters or {})


def _settle_mark(item: Table | Partition, present: Table | Partition, *, is_late: bool) -> None:
    """Replace the mark of ``item`` by that of ``present``; remove it if ``present`` has no mark, or if
    ``item`` is late and has other numbers.
    """
    _remove_mark(item)
    if _has_mark(present) and not (is_late and _read_numbers(item) != _read_numbers(present)):
        item.parameters = {**(item.parameters or {}), ACCURATE: (present.parameters or {})[ACCURATE]}


def _read_numbers(item: Table | Partition) -> dict[str, str]:
    return {key: value for key, value in (item.parameters or {}).items() if key in STATISTICS - {ACCURATE}}


def _is_late(table: str, write_id: int | None, context: Context) -> bool:
    """Whether a change under ``write_id``, which no open transaction holds, came after the end of its
    transaction; False for a change that a load contains.
    """
    return write_id is not None and not context.tables.loads.contains_write(table, write_id)


def _is_written(table: str, write_id: int | None, context: Context) -> bool:
    """Whether an open transaction holds ``write_id`` in ``table``."""
    open_write_ids = context.tables.write_ids.held_write_ids(f"{context.policy.source_db}.{table}")
    return any(write_id == each for each, _ in open_write_ids)


def mark_inaccurate(table: str, write_id: int, partition_names: Iterable[str], context: Context) -> None:
    """Mark statistics that came with ``write_id`` as inaccurate,
    because its rows are not and will not be on the target.

    Skips objects that no longer exist.
    """
    try:
        present = context.target.get_table(context.policy.target_db, table)
    except NotFound:
        return
    if present.partitionKeys:
        _mark_partitions_inaccurate(table, write_id, partition_names, context)
    elif present.writeId == write_id and _remove_mark(present):
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
    """Mark the partitions, ``BATCH`` in two calls, because a transaction may touch a hundred thousand."""
    db, listed = context.policy.target_db, list(names)
    for piece in in_pieces(listed, BATCH):
        partitions = context.target.get_partitions(db, table, piece)
        changed = [each for each in partitions if each.writeId == write_id and _remove_mark(each)]
        if changed:
            context.target.alter_partitions(
                db,
                table,
                changed,
                write_id=write_id,
                valid_write_ids=context.valid_up_to(table, write_id),
                environment=KEEP_STATISTICS,
            )


def _remove_mark(item: Table | Partition) -> bool:
    """Remove the mark of accurate statistics from ``item``; return whether it was present."""
    return (item.parameters or {}).pop(ACCURATE, None) is not None
