"""Replayed transactions: opened, given write ids, and ended on the target for a transaction of the source.

The target's metastore maps source transactions to its own, for each policy (a text that the caller chooses
and must keep). Two rules apply to every call, because breaking them succeeds silently with another effect
(reference: hive-replication.md §0.4, §0b.7): every call sends ``txn_type=REPL_CREATED`` and names one source
transaction, except for write ids that the target would give anyway (``allocate_many_replayed``).

Tideline never opens many transactions by one call, although Hive has such a call. That call opens none if one
of them is open already, answers in any order, and on Derby and SQL Server two such calls at a time deadlock:
there it finds the new ids by scanning the table of transactions (OpenTxnsFunction). Twenty seconds later the
database ends one of them; meanwhile the others use up the metastore's connections.

**Lost transactions.** If opening a transaction takes the metastore longer than
``metastore.txn.opentxn.timeout`` (1 s), Hive deletes the new transaction, but not its row in the mapping, and
then answers with the id that no longer exists. A metastore that has just been started needs that long. From
then on, Hive refuses to allocate write ids for the source transaction and to end it, and nothing removes the
row. Such a transaction opens again under a substitute text, ``POLICY~1`` and so on. All later calls find it
again in the same way, without any memory here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import structlog

from handlers.metastore.session import CLIENT_NAME
from handlers.metastore.transactions import ABORT, ALLOCATE, COMMIT, OPEN, REPLAYED, TransactionCalls
from handlers.structs.notifications import WriteEventInfo
from handlers.structs.transactions import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    CommitTxnRequest,
    OpenTxnRequest,
    TxnToWriteId,
    TxnType,
)
from state.errors import ServerFault, TargetDiverged, TxnNotOpen


log = structlog.get_logger(__name__)
T = TypeVar("T")
SUBSTITUTES_MAX: Final = 5
"""Maximum number of losses of one source transaction."""


class ReplayedTransactionCalls(TransactionCalls):
    """Calls about replayed transactions.
    They need Hive 4.0 and are idempotent, unless a method states otherwise.
    """

    def open_replayed(self, policy: str, source_txn: int) -> int:
        """Return the target's transaction for ``source_txn``, opened if necessary.

        The mapping ends with the commit or abort; after that, this call would open another transaction. The
        caller prevents it by its position. Raises TargetDiverged if the answer is not exactly one id,
        Unsupported before Hive 4.0.
        """
        self._require_replay()
        request = OpenTxnRequest(
            num_txns=1,
            user=CLIENT_NAME,
            hostname=socket.gethostname(),
            agentInfo=CLIENT_NAME,
            replPolicy=policy,
            replSrcTxnIds=[source_txn],
            txn_type=TxnType.REPL_CREATED,
        )
        opened = self._invoke(OPEN, request).txn_ids
        if len(opened) != 1:
            raise TargetDiverged(
                "the target did not open exactly one transaction", source_txn=source_txn, opened=opened
            )
        return opened[0]

    def allocate_replayed(
        self, policy: str, db: str, table: str, source_txn: int, write_id: int, *, reallocate: bool = False
    ) -> int | None:
        """Allocate ``write_id`` for ``source_txn`` in a table;
        return the write id that the transaction now has.

        None means that the target has no open transaction for ``source_txn``; the server reports no error. A
        different id means that the transaction already had one. Only then may ``reallocate`` be used to
        replace it: on a plain repetition it would forget write ids that other transactions have in the table
        (reference: hive-replication.md §2.2).
        """
        self._require_replay()

        def allocate(key: str) -> int | None:
            if key != policy:
                self.open_replayed(key, source_txn)
            request = AllocateTableWriteIdsRequest(
                dbName=db,
                tableName=table,
                replPolicy=key,
                srcTxnToWriteIdList=[TxnToWriteId(txnId=source_txn, writeId=write_id)],
                reallocate=True if reallocate else None,
            )
            allocated = self._invoke(ALLOCATE, request).txnToWriteIds
            return allocated[0].writeId if allocated else None

        return self._send(allocate, policy, source_txn, ServerFault)

    def allocate_many_replayed(
        self, policy: str, db: str, table: str, allocations: Sequence[tuple[int, int]]
    ) -> dict[int, int]:
        """Allocate write ids, each named with its source transaction, by one call;
        return them by the target's transaction.

        The ids must be the table's next ones on the target, without a gap and in the order of the target's
        transactions; ``handlers.replication.transactions.coming_events`` selects them and describes Hive's
        other behaviour. If a transaction is not open, it allocates nothing: the answer is empty if its
        mapping is gone, and ServerFault if Hive has lost it.
        """
        self._require_replay()
        request = AllocateTableWriteIdsRequest(
            dbName=db,
            tableName=table,
            replPolicy=policy,
            srcTxnToWriteIdList=[TxnToWriteId(txnId=txn, writeId=write_id) for txn, write_id in allocations],
        )
        return {each.txnId: each.writeId for each in self._invoke(ALLOCATE, request).txnToWriteIds}

    def commit_replayed(self, policy: str, source_txn: int, writes: Sequence[WriteEventInfo]) -> None:
        """Commit. ``writes`` contains the target's table names and the source's file entries;
        the files must be in place.

        Success proves nothing: a commit of an unknown transaction or policy succeeds as well. Raises
        ServerFault if a file or table of ``writes`` is missing; the transaction then stays open.
        """
        self._require_replay()

        def commit(key: str) -> None:
            request = CommitTxnRequest(
                txnid=source_txn,
                replPolicy=key,
                writeEventInfos=list(writes) or None,
                txn_type=TxnType.REPL_CREATED,
            )
            self._invoke(COMMIT, request)

        self._send(commit, policy, source_txn, TxnNotOpen)

    def abort_replayed(self, policy: str, source_txn: int) -> None:
        """Abort; an abort of an unknown transaction succeeds as well."""
        self._require_replay()

        def abort(key: str) -> None:
            request = AbortTxnRequest(txnid=source_txn, replPolicy=key, txn_type=TxnType.REPL_CREATED)
            self._invoke(ABORT, request)

        self._send(abort, policy, source_txn, TxnNotOpen)

    def replayed_txns(self, policy: str) -> dict[int, int]:
        """Return the target's open transactions of ``policy``, by source transaction (since Hive 4.2)."""
        target_txns: dict[int, int] = {}
        for key in _list_keys(policy):
            mapped = self._read_mapping(key)
            existing = self._existing_txns() if mapped else frozenset()
            target_txns |= {source: target for source, target in mapped.items() if target in existing}
            if existing.issuperset(mapped.values()):
                break  # there is no loss, so no transaction has a substitute
        return target_txns

    def _send(
        self,
        call: Callable[[str], T],
        policy: str,
        source_txn: int,
        refusal: type[ServerFault | TxnNotOpen],
    ) -> T:
        """Send a call under the policy's text or,
        if Hive has lost the transaction and answers ``refusal``, under a substitute.
        """
        try:
            return call(policy)
        except refusal:
            substitute = self._find_substitute(policy, source_txn)
            if substitute is None:
                raise
        log.warning(
            "the target lost a transaction while opening it; another one replaces it",
            policy=policy,
            source_txn=source_txn,
            substitute=substitute,
        )
        return call(substitute)

    def _find_substitute(self, policy: str, source_txn: int) -> str | None:
        """Return the text under which the transaction is open or can open; None if Hive has not lost it."""
        if not self.supports("get_replayed_txns_for_policy"):
            return None
        for key in _list_keys(policy):
            target_txn = self._read_mapping(key).get(source_txn)
            # Lost: the mapping names a transaction that does not exist, not even as an aborted one.
            if target_txn is None or target_txn in self._existing_txns():
                return None if key == policy else key
        return None

    def _read_mapping(self, key: str) -> dict[int, int]:
        """Return the mapping of source transactions to target transactions, which may no longer exist."""
        entries = self._invoke(REPLAYED, key).replTxnMapEntry or {}
        return {int(source): int(target) for source, target in entries.items()}

    def _existing_txns(self) -> frozenset[int]:
        return frozenset(txn.id for txn in self.open_txns_info().open_txns)


def _list_keys(policy: str) -> list[str]:
    """Return the policy's text and its substitutes, in the order of use."""
    return [policy, *(f"{policy}~{number}" for number in range(1, SUBSTITUTES_MAX + 1))]
