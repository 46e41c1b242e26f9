"""Allocates write ids ahead of their turn, many with one call of the target.

An allocation costs the target's metastore about as much for twenty transactions as for one. So the first
ALLOC_WRITE_ID of a batch also starts to open the transactions of the later allocations
(``transactions_ahead``), one after the other. As soon as some transactions are open, one call for each table
allocates their write ids; the others follow while the first are being replayed. At the turn of an event, its
allocation is already done: only then do the write-id mapping and the position change. (One call cannot open
many transactions: ``handlers.metastore.replayed_transactions``.)

Until then, only the target knows the early openings. That is enough:

* A killed run leaves open transactions without rows. The next run finds them by policy and source id, even if
  it joins other events.
* A transaction whose write ids are not replicated after all, because its table was quarantined in between,
  has nothing to show. Replay aborts it at its end (``is_unused``). If the process has forgotten it,
  ``reconciliation`` aborts it; a promotion or retirement aborts all open transactions.

Replay queries the table's next write id on the target before a joined call, because a joined call with other
write ids damages the table silently (``coming_events``). So only replay's own thread allocates. Only Hive 4.2
and later list the open transactions of a killed run; older targets get no early openings. If a target refuses
a joined call, every event of the batch is applied separately, so that a failure belongs to the event that
caused it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from handlers.events import Event, WriteIdsAllocated
from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.replication.effects import loaded_tables
from handlers.replication.observer import LookaheadCounts
from handlers.replication.transactions.coming_events import (
    ComingAllocation,
    WriteIdOfTxn,
    find_coming_allocations,
    select_joinable,
)
from handlers.replication.transactions.transactions_ahead import TransactionsAhead
from state.errors import BadInput, Inconsistent, Refused, ServerFault


OPENED_MAX: Final = 100
"""Transactions opened ahead."""
TXNS_MAX: Final = 50
"""Transactions whose write ids are allocated together."""
JOINED_MIN: Final = 3
"""Minimum number of allocations of a joined call. It needs an additional query, which fewer allocations do
not repay.
"""
_AWAITED: Final = 8
"""Number of open transactions per table for which replay waits before it allocates; it joins further ones
that are open then.
"""


class WriteIdLookahead:
    """Openings and allocations ahead of their turn. Used by the projection's thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._events: Sequence[Event] = ()
        self._places: dict[tuple[int, int], int] = {}
        """Where each allocation is among ``_events``, by event id and part."""
        self._transactions = TransactionsAhead(context)
        self._write_ids: dict[tuple[int, str], int] = {}
        """Write ids that were allocated ahead, and have not had their turn, by source transaction and
        table."""
        self._planned_up_to = (-1, -1)
        """Event id and write id of the last allocation considered: up to it, events that were not joined are
        applied separately.
        """
        self._counts = LookaheadCounts()

    def begin(self, events: Sequence[Event], *, uncertain_up_to: int) -> None:
        """Start a batch; ``events`` are those that may concern the policy.

        Nothing is opened ahead for events up to ``uncertain_up_to``: the target may have ended their
        transactions.
        """
        self._events = events
        self._write_ids.clear()
        self._planned_up_to = (-1, -1)
        self._transactions.begin()
        can_look = self._context.target.supports("get_replayed_txns_for_policy")
        self._places = {
            (event.event_id, event.part): place
            for place, event in enumerate(events if can_look else ())
            if isinstance(event, WriteIdsAllocated) and event.event_id > uncertain_up_to
        }

    def end(self) -> None:
        """End a batch: nothing is being opened after this call."""
        self._transactions.stop()
        self._counts.transactions += self._transactions.take_count()

    def clear(self) -> None:
        """Forget everything, as after a restart."""
        self._events, self._places = (), {}
        self._transactions.clear()
        self._write_ids.clear()

    def close(self) -> None:
        """Release the thread and the connection of the openings."""
        self._transactions.close()

    def prepare(self, event: WriteIdsAllocated, pair: WriteIdOfTxn) -> None:
        """Open transactions and allocate write ids for ``event``, whose turn it is, and the next events,
        unless an earlier call has already considered ``pair`` of this event.
        """
        place = self._places.get((event.event_id, event.part))
        if place is None or (event.event_id, pair.write_id) <= self._planned_up_to:
            return
        coming = self._find_coming(place)
        try:
            for table, pairs in self._open(coming).items():
                if len(pairs) >= JOINED_MIN:
                    self._allocate(table, pairs)
        except (BadInput, Refused, Inconsistent, ServerFault):
            self._places = {}
        if self._transactions.has_failed:
            self._places = {}

    def take_counts(self) -> LookaheadCounts:
        """Return the counts since the last call."""
        counts, self._counts = self._counts, LookaheadCounts()
        return counts

    def find_target_txn(self, txn_id: int) -> int | None:
        """Return the target's transaction if opened ahead."""
        return self._transactions.find(txn_id)

    def take_write_id(self, txn_id: int, table: str) -> int | None:
        """Return the write id allocated ahead for the event that has its turn."""
        return self._write_ids.pop((txn_id, table), None)

    def holds(self, txn_id: int, name: str, write_id: int) -> bool:
        """Whether the transaction holds this write id of a table (``db.table``) already."""
        return self._write_ids.get((txn_id, name.partition(".")[2])) == write_id

    def is_unused(self, txn_id: int) -> bool:
        """Whether the transaction was opened ahead, and none of its write ids has had its turn."""
        return self._transactions.find(txn_id) is not None

    def forget(self, txn_id: int) -> None:
        """Note that the mapping knows the transaction, or that it has ended."""
        self._transactions.forget(txn_id)

    def _find_coming(self, place: int) -> list[ComingAllocation]:
        """Return the write ids that the event at ``place`` and those after it will allocate."""
        allocations: list[ComingAllocation] = []
        txns: set[int] = set()
        for each in find_coming_allocations(islice(self._events, place, None), self._select):
            txns.add(each.pair.txn_id)
            if len(txns) > OPENED_MAX:
                break
            allocations.append(each)
        return allocations

    def _open(self, coming: Sequence[ComingAllocation]) -> dict[str, list[WriteIdOfTxn]]:
        """Start opening the transactions;
        return the first of their write ids, by table, as far as transactions are open.
        """
        tables = Counter(each.table for each in coming)
        joinable = sum(count >= JOINED_MIN for count in tables.values())
        txn_ids = dict.fromkeys(each.pair.txn_id for each in coming)
        if len(coming) >= JOINED_MIN:
            self._transactions.start(
                txn_id for txn_id in txn_ids if txn_id not in self._context.tables.write_ids
            )
        self._transactions.wait(islice(txn_ids, min(_AWAITED * joinable, TXNS_MAX)))
        pairs_by_table: dict[str, list[WriteIdOfTxn]] = {}
        for each in self._select_open(coming) if joinable else coming:
            pairs_by_table.setdefault(each.table, []).append(each.pair)
            self._planned_up_to = each.event_id, each.pair.write_id
        return pairs_by_table

    def _select_open(self, coming: Sequence[ComingAllocation]) -> Iterator[ComingAllocation]:
        """Yield the write ids up to the first one whose transaction is not open yet."""
        txns: set[int] = set()
        for each in coming:
            txn_id = each.pair.txn_id
            txns.add(txn_id)
            is_open = txn_id in self._context.tables.write_ids or self._transactions.is_open(txn_id)
            if not is_open or len(txns) > TXNS_MAX:
                return
            yield each

    def _select(self, event: WriteIdsAllocated) -> Iterator[WriteIdOfTxn]:
        """Yield the write ids of an event that will be new to ``dispatch`` at its turn, except those that
        replace one of the same transaction.
        """
        context, table = self._context, event.table
        if table is None or not context.in_scope(event.db, table) or not context.policy.copies_rows(table):
            return
        if loaded_tables.is_loaded(event, table, context):
            return
        name = f"{event.db}.{table}"
        mark = context.tables.write_ids.high_water_mark(name)
        for txn_id, write_id in event.pairs:
            replaces = context.tables.write_ids.find_write_id(txn_id, name) is not None
            if write_id > mark and not replaces and not context.tables.loads.contains_write(table, write_id):
                yield WriteIdOfTxn(txn_id, write_id)

    def _allocate(self, table: str, pairs: Sequence[WriteIdOfTxn]) -> None:
        """Allocate write ids of a table, as far as the target would give these ids anyway, by one call for
        each run of consecutive ids.
        """
        target, policy = self._context.target, self._context.policy
        target_txns = self._find_target_txns(pairs)
        next_write_id = target.highest_write_id(policy.target_db, table) + 1
        while run := select_joinable(pairs, next_write_id=next_write_id, target_txns=target_txns):
            answer = target.allocate_many_replayed(policy.txn_map_key, policy.target_db, table, run)
            failpoint("replay.after-allocate")
            if any(answer.get(target_txns[each.txn_id]) != each.write_id for each in run):
                return
            self._write_ids |= {(each.txn_id, table): each.write_id for each in run}
            next_write_id += len(run)
            self._counts.write_ids += len(run)
            self._counts.calls += 1

    def _find_target_txns(self, pairs: Sequence[WriteIdOfTxn]) -> dict[int, int]:
        find_in_mapping = self._context.tables.write_ids.find_target_txn
        target_txns = {
            each.txn_id: self._transactions.find(each.txn_id) or find_in_mapping(each.txn_id)
            for each in pairs
        }
        return {txn_id: target_txn for txn_id, target_txn in target_txns.items() if target_txn is not None}
