"""The target's knowledge of a write id: open, committed or not allocated there.

Replay needs it in four situations. After commits, it proves that the write ids are visible
(``CommitProofs``), because Hive answers a wrong commit with success. Before files are removed from the
target, it makes sure that no reader counts them: a killed run may have committed the transaction, and only
the record of it is missing. Before files are copied for a write id that the write-id mapping does not know
(the state file was lost), it makes sure that the target has allocated it. After a loss of the state file, it
finds out whether an event that allocates write ids was already applied, and whether its transaction has ended
since.

Readers use the table's list of valid write ids, so the list decides. If the list does not contain the id,
because it is cut or the metastore has forgotten the id, the state of the transaction decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.structs.transactions import TxnState
from state.errors import TargetDiverged
from state.pieces import in_pieces
from state.transactions.unproven_commits import UnprovenCommit
from state.transactions.valid_write_ids import ValidWriteIds, WriteIdState


_UNDECIDED = (WriteIdState.HIDDEN, WriteIdState.UNALLOCATED)
_TABLES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class OpeningMarks:
    """Ids up to which replay checks the target instead of relying on the state;
    -1 if nothing must be checked.
    """

    unknown_txn_id: int = -1
    """Source transactions up to this one may be open on the target although the write-id mapping does not
    know them."""
    uncertain_event_id: int = -1
    """Events up to this one may be applied on the target although the state does not say so."""
    repeated_event_id: int = -1
    """Events up to this one may be commits that an earlier run has sent: the first one after the position, or
    more if the state was lost."""


def find_state(context: Context, table: str, write_id: int, txn_id: int) -> WriteIdState:
    """Return the state of a write id of ``table`` that belongs to the source transaction ``txn_id``:
    never HIDDEN.
    """
    name = f"{context.policy.target_db}.{table}"
    (valid,) = context.target.valid_write_ids([name])
    return _decide(context, table, write_id, txn_id, valid.state_of(write_id))


def is_committed(context: Context, table: str, write_id: int, txn_id: int) -> bool:
    """Whether readers of the target count files under this write id, so that none may be removed."""
    return find_state(context, table, write_id, txn_id) is WriteIdState.VISIBLE


def require_committed(context: Context, commits: Iterable[UnprovenCommit]) -> None:
    """Prove commits with one read: every write id that they hold is visible.
    Raises TargetDiverged if one is not.

    The target may not have allocated the write ids of a table that is not followed, so these must only not be
    open or aborted.
    """
    write_ids = [(*each, commit) for commit in commits for each in commit.write_ids.items()]
    lists = _read_lists(context, {name.partition(".")[2] for name, _, _ in write_ids})
    for name, write_id, commit in write_ids:
        table = name.partition(".")[2]
        state = lists[table].state_of(write_id)
        if context.in_scope(context.policy.source_db, table):
            state = _decide(context, table, write_id, commit.txn_id, state, commit.target_txn)
        elif state in _UNDECIDED:
            continue
        if state is not WriteIdState.VISIBLE:
            raise TargetDiverged(
                "the target reported success but did not commit",
                table=f"{context.policy.target_db}.{table}",
                write_id=write_id,
                state=state.value,
                policy=context.policy.txn_map_key,
            )


def _read_lists(context: Context, tables: set[str]) -> dict[str, ValidWriteIds]:
    """Return the write-id list of each table."""
    return dict(_read_pages(context, sorted(tables)))


def _read_pages(context: Context, tables: list[str]) -> Iterator[tuple[str, ValidWriteIds]]:
    for page in in_pieces(tables, _TABLES_AT_ONCE):
        names = [f"{context.policy.target_db}.{table}" for table in page]
        yield from zip(page, context.target.valid_write_ids(names), strict=True)


def _decide(  # noqa: PLR0913 - one write id, and what is known of it
    context: Context,
    table: str,
    write_id: int,
    txn_id: int,
    state: WriteIdState,
    target_txn: int | None = None,
) -> WriteIdState:
    """Decide about an id above the list's mark: the mark is not always the last id allocated
    (``may_be_cut``).
    """
    if state not in _UNDECIDED:
        return state
    if context.target.highest_write_id(context.policy.target_db, table) < write_id:
        return WriteIdState.UNALLOCATED
    return WriteIdState.OPEN if _is_open(context, txn_id, target_txn) else WriteIdState.VISIBLE


def _is_open(context: Context, txn_id: int, target_txn: int | None) -> bool:
    """Whether the transaction is not committed on the target; True if this is unknown."""
    source_txn = context.tables.write_ids.get(txn_id) if target_txn is None else None
    target_txn = source_txn.target_txn if source_txn is not None else target_txn
    if target_txn is not None:
        listed = context.target.open_txns_info().open_txns
        return any(txn.id == target_txn and txn.state != TxnState.COMMITTED for txn in listed)
    if context.target.supports("get_replayed_txns_for_policy"):
        return txn_id in context.target.replayed_txns(context.policy.txn_map_key)
    return True


class CommitProofs:
    """Proves the commits of one policy, many with one read (``state.transactions.unproven_commits``)."""

    def __init__(self, context: Context, *, waiting_max: int = 0) -> None:
        """Up to ``waiting_max`` commits may wait for their proof; more are proven at once."""
        self._context = context
        self._waiting_max = waiting_max

    def add(self, commit: UnprovenCommit) -> None:
        """Note a commit sent; raise as ``prove`` does."""
        self._context.tables.unproven.add(commit)
        if len(self._context.tables.unproven) > self._waiting_max:
            self.prove()

    def prove(self) -> None:
        """Prove the commits sent since the last proof; raise TargetDiverged if one has no effect."""
        unproven = self._context.tables.unproven
        if unproven:
            failpoint("replay.before-proof")
            require_committed(self._context, unproven.commits())
            unproven.clear()
            failpoint("replay.after-proof")
