"""Early work for later events of a batch: write ids to allocate, and files to copy.

Events that may change the kind of a table, or move its files, are look-ahead barriers: later events must wait
for their turn.

**Write ids** may be allocated unless an event in between creates, drops or renames the table, truncates it,
or alters more of it than parameters: write ids after such an event may belong to another table, to a table
that is no longer replicated, or to a table whose alteration failed. An event whose table is unknown is a
barrier for all tables.

One call may allocate several write ids (``select_joinable``). Hive gives the transactions of such a call
consecutive ids from the first one named, in the order of their ids on the target, and looks at no other named
id (AllocateTableWriteIdsFunction). It returns existing ids only if all transactions have one. Otherwise, if
the first named id is not the table's next one, it forgets every write id of the table, and readers then take
write ids of open transactions for committed. It reports success each time. So a call may name only ids that
the target would give anyway. (``test_joined_transactions``)

**Files.** Copies wait for disks and networks, calls wait for the target's metastore. So that the waiting
times do not add up, the files of later transactions are copied while earlier ones are replayed. The files of
a write event may be copied once its write id is allocated on the target: they are invisible before the
commit, and the target's compactor ignores them. Creation, drop, rename and truncation of the table or of its
partitions are barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from handlers.events import (
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsDeleted,
    StatisticsUpdated,
    TableAltered,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Undecodable,
    Unhandled,
    WriteIdsAllocated,
)
from handlers.replication.policy.renames import find_names, name_on_target, needs_checkpoint
from handlers.replication.policy.replicability import find_obstacle
from handlers.replication.target.objects import is_transactional
from handlers.structs.objects import Table
from state.errors import BadInput


class WriteIdOfTxn(NamedTuple):
    """A write id and the source transaction that holds it."""

    txn_id: int
    write_id: int


class ComingAllocation(NamedTuple):
    """A write id that a later event of the batch allocates in ``table``, by its name without the database."""

    event_id: int
    table: str
    pair: WriteIdOfTxn


EVENTS_MAX: Final = 1_000
"""Maximum number of events to examine."""


_HARMLESS: Final = (
    TxnsOpened,
    TxnCommitted,
    TxnAborted,
    Unhandled,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    StatisticsDeleted,
)


def find_coming_allocations(
    events: Iterable[Event], select: Callable[[WriteIdsAllocated], Iterable[WriteIdOfTxn]]
) -> Iterator[ComingAllocation]:
    """Yield the allocations of ``events``, in order and once for each transaction and table.

    ``select`` returns an event's future allocation on the target if nothing changes until its turn. A second
    id of the same transaction in a table replaces the first, which takes its own call: it is a barrier, too.
    """
    barred: set[str] = set()
    allocations: set[tuple[int, str]] = set()
    for event in islice(events, EVENTS_MAX):
        if isinstance(event, WriteIdsAllocated):
            table = event.table
            for pair in select(event) if table is not None and table not in barred else ():
                assert table is not None
                if (pair.txn_id, table) in allocations:
                    barred.add(table)
                    break
                allocations.add((pair.txn_id, table))
                yield ComingAllocation(event.event_id, table, pair)
        elif not isinstance(event, _HARMLESS):
            if event.table is None:
                return
            barred |= _find_barred(event, event.table)


def _find_barred(event: Event, table: str) -> frozenset[str]:
    """Return the tables for which the event is a barrier."""
    if isinstance(event, TableAltered) and not event.truncate and _changes_only_parameters(event):
        return frozenset()
    return find_names(event) | {table}


def _changes_only_parameters(event: TableAltered) -> bool:
    """Whether the table stays the same except for parameters that do not decide how it is replicated."""
    try:
        return _describe(event.before.value) == _describe(event.after.value)
    except BadInput:
        return False


def _describe(table: Table) -> object:
    return (
        table.dbName,
        table.tableName,
        table.tableType,
        table.sd,
        table.partitionKeys,
        is_transactional(table),
        find_obstacle(table),
    )


def select_joinable(
    coming: Iterable[WriteIdOfTxn], *, next_write_id: int, target_txns: Mapping[int, int]
) -> Sequence[WriteIdOfTxn]:
    """Return those of the ``coming`` write ids that one call may allocate, in order; empty if there are none.

    ``next_write_id`` is the table's next one on the target: lower ids are allocated already, perhaps by a
    killed process, and are left out. ``target_txns`` are the transactions of the target that are open for
    those of the source.
    """
    joinable: list[WriteIdOfTxn] = []
    newest = -1
    for each in coming:
        if each.write_id < next_write_id and not joinable:
            continue
        target_txn = target_txns.get(each.txn_id)
        if each.write_id != next_write_id + len(joinable) or target_txn is None or target_txn <= newest:
            break
        joinable.append(each)
        newest = target_txn
    return joinable


def select_lookahead_events(events: Iterable[Event]) -> list[Event]:
    """Return the write events and look-ahead barriers of a batch, in order: the input of
    ``find_early_copies``.

    They are few, so that ``find_early_copies`` can run after every allocation.
    """
    return [
        event
        for event in events
        if isinstance(event, FilesWritten | DatabaseCreated | DatabaseDropped | Undecodable)
        or _is_barrier(event)
    ]


def find_early_copies(
    coming: Iterable[Event], allocated: Callable[[int, str, int], bool]
) -> Iterator[FilesWritten]:
    """Yield the write events whose files may be copied now; ``coming`` is the rest of
    ``select_lookahead_events``.

    ``allocated`` returns whether a transaction holds a write id of a table: (transaction id, ``db.table``,
    write id).
    """
    behind_barrier: set[tuple[str | None, str | None]] = set()
    for event in coming:
        if isinstance(event, FilesWritten):
            free = (event.db, event.table) not in behind_barrier and event.incomplete is None
            if free and allocated(event.txn_id, f"{event.db}.{event.table}", event.write_id):
                yield event
        elif isinstance(event, DatabaseCreated | DatabaseDropped | Undecodable):
            return
        else:
            behind_barrier |= {(event.db, event.table), (event.db, name_on_target(event))}


def _is_barrier(event: Event) -> bool:
    """Whether the event may move or remove files of the table."""
    if isinstance(event, PartitionsDropped):
        return True
    if isinstance(event, TableAltered | PartitionsAltered) and event.truncate:
        return True
    return needs_checkpoint(event)
