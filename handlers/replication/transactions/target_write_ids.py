"""What the target knows about a write id: whether it is open, committed or not allocated there.

Replay asks in three situations. After a commit, it proves that the write ids are visible. Before files are removed from the
target, it makes sure that no reader counts them: a killed run may have committed the transaction, and only the record of it is
missing. Before files are copied for a write id that the write-id mapping does not know (the state file was lost), it makes sure
that the target has allocated it.

Readers use the table's list of valid write ids, so the list decides. Where it does not say, because it is cut or the metastore
has forgotten the id, the state of the transaction decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.structs.transactions import TxnState
from state.errors import TargetDiverged
from state.transactions.valid_write_ids import WriteIdState


if TYPE_CHECKING:
    from handlers.replication.context import Context
    from state.transactions.open_transactions import SourceTxn


_UNDECIDED = (WriteIdState.HIDDEN, WriteIdState.UNALLOCATED)


def find_state(context: Context, table: str, write_id: int, txn_id: int) -> WriteIdState:
    """Return the state of a write id of ``table`` that belongs to the source transaction ``txn_id``: never HIDDEN."""
    name = f"{context.policy.target_db}.{table}"
    (valid,) = context.target.valid_write_ids([name])
    return _decide(context, table, write_id, txn_id, valid.state_of(write_id))


def is_committed(context: Context, table: str, write_id: int, txn_id: int) -> bool:
    """Whether readers of the target count files under this write id, so that none may be removed."""
    return find_state(context, table, write_id, txn_id) is WriteIdState.VISIBLE


def require_committed(context: Context, known: SourceTxn) -> None:
    """Prove the commit of a transaction: every write id that it holds is visible. Raises TargetDiverged if one is not.

    The target may not have allocated the write ids of a table that is not followed, so these must only not be open or aborted.
    """
    held = {allocation.table.partition(".")[2]: allocation.write_id for allocation in known.allocations}
    if not held:
        return
    db = context.policy.target_db
    lists = context.target.valid_write_ids([f"{db}.{table}" for table in sorted(held)])
    for table, valid in zip(sorted(held), lists, strict=True):
        write_id = held[table]
        state = valid.state_of(write_id)
        if context.in_scope(context.policy.source_db, table):
            state = _decide(context, table, write_id, known.txn_id, state)
        elif state in _UNDECIDED:
            continue
        if state is not WriteIdState.VISIBLE:
            raise TargetDiverged(
                "the target reported success but did not commit",
                table=f"{db}.{table}",
                write_id=write_id,
                state=state.value,
                policy=context.policy.txn_map_key,
            )


def _decide(context: Context, table: str, write_id: int, txn_id: int, state: WriteIdState) -> WriteIdState:
    """Decide about an id above the list's mark: the mark is not always the last id that was allocated (``may_be_cut``)."""
    if state not in _UNDECIDED:
        return state
    if context.target.highest_write_id(context.policy.target_db, table) < write_id:
        return WriteIdState.UNALLOCATED
    return WriteIdState.OPEN if _is_open(context, txn_id) else WriteIdState.VISIBLE


def _is_open(context: Context, txn_id: int) -> bool:
    """Whether the transaction is not committed on the target; True if nobody knows."""
    known = context.write_ids.get(txn_id)
    if known is not None and known.target_txn is not None:
        listed = context.target.open_txns_info().open_txns
        return any(txn.id == known.target_txn and txn.state != TxnState.COMMITTED for txn in listed)
    if context.target.supports("get_replayed_txns_for_policy"):
        return txn_id in context.target.replayed_txns(context.policy.txn_map_key)
    return True
