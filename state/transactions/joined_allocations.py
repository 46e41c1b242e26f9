"""Which write ids of one table a single call of the target may allocate.

Hive gives the transactions of such a call consecutive ids from the first one that is named, in the order of their ids on the target, and looks at no
other named id (AllocateTableWriteIdsFunction). It returns existing ids only if all transactions have one. Otherwise, if the first named id is not
the table's next one, it forgets every write id of the table, and readers then take those of open transactions for committed. It
reports success each time. So a call may name only ids that the target would give anyway. (``test_joined_transactions``)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class WriteIdOfTxn(NamedTuple):
    """A write id and the source transaction that holds it."""

    txn_id: int
    write_id: int


def select_joinable(
    coming: Iterable[WriteIdOfTxn], *, next_write_id: int, target_txns: Mapping[int, int]
) -> Sequence[WriteIdOfTxn]:
    """Return those of the ``coming`` write ids that one call may allocate, in order; empty if there are none.

    ``next_write_id`` is the table's next one on the target: lower ids are allocated already, perhaps by a process that was killed, and are left
    out. ``target_txns`` are the transactions of the target that are open for those of the source.
    """
    found: list[WriteIdOfTxn] = []
    newest = -1
    for each in coming:
        if each.write_id < next_write_id and not found:
            continue
        target_txn = target_txns.get(each.txn_id)
        if each.write_id != next_write_id + len(found) or target_txn is None or target_txn <= newest:
            break
        found.append(each)
        newest = target_txn
    return found
