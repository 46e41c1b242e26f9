"""Transactions and write ids: reading their state, replaying those of another metastore, and compactions.

The target's metastore maps source transactions to its own, for each policy (a text that the caller chooses and must keep).
Two rules apply to every replayed call, because breaking them succeeds silently with another effect (reference:
hive-replication.md §0.4, §0b.7): ``txn_type=REPL_CREATED`` is always sent, and a call names one source transaction.
"""

from __future__ import annotations

import socket
from types import NoneType
from typing import TYPE_CHECKING, Final

from handlers.metastore.calls import Call
from handlers.metastore.hive_version import V3_1, V4_0, V4_2
from handlers.metastore.session import Session
from handlers.structs.exceptions import MetaException, NoSuchTxnException, TxnAbortedException
from handlers.structs.transactions import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    AllocateTableWriteIdsResponse,
    CommitTxnRequest,
    CompactionRequest,
    CompactionResponse,
    CompactionType,
    GetOpenTxnsInfoResponse,
    GetValidWriteIdsRequest,
    GetValidWriteIdsResponse,
    MaxAllocatedTableWriteIdRequest,
    MaxAllocatedTableWriteIdResponse,
    OpenTxnRequest,
    OpenTxnsResponse,
    ReplayedTxnsForPolicyResult,
    ReplTblWriteIdStateRequest,
    ShowCompactRequest,
    ShowCompactResponse,
    ShowCompactResponseElement,
    TxnState,
    TxnToWriteId,
    TxnType,
)
from state.errors import ServerFault, TargetDiverged, Unsupported
from state.transactions.valid_write_ids import NO_OPEN_WRITE_ID, ValidWriteIds


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handlers.structs.notifications import WriteEventInfo


ABORTED_BY_BOOTSTRAP: Final = 51004
"""Hive's reason of an abort before a bootstrap (TxnErrorMsg; reference: hive-replication.md §3.12)."""

OPEN: Final = Call("open_txns", {"rqst": OpenTxnRequest}, OpenTxnsResponse, (), changes=True)
COMMIT: Final = Call(
    "commit_txn",
    {"rqst": CommitTxnRequest},
    NoneType,
    (NoSuchTxnException, TxnAbortedException),
    changes=True,
)
ABORT: Final = Call("abort_txn", {"rqst": AbortTxnRequest}, NoneType, (NoSuchTxnException,), changes=True)
ALLOCATE: Final = Call(
    "allocate_table_write_ids",
    {"rqst": AllocateTableWriteIdsRequest},
    AllocateTableWriteIdsResponse,
    (NoSuchTxnException, TxnAbortedException, MetaException),
    changes=True,
    since=V3_1,
)
_OPEN_INFO: Final = Call("get_open_txns_info", {}, GetOpenTxnsInfoResponse, (), changes=False)
_VALID: Final = Call(
    "get_valid_write_ids",
    {"rqst": GetValidWriteIdsRequest},
    GetValidWriteIdsResponse,
    (NoSuchTxnException, MetaException),
    changes=False,
    since=V3_1,
)
_HIGHEST: Final = Call(
    "get_max_allocated_table_write_id",
    {"rqst": MaxAllocatedTableWriteIdRequest},
    MaxAllocatedTableWriteIdResponse,
    (MetaException,),
    changes=False,
    since=V4_0,
)
_REPLAYED: Final = Call(
    "get_replayed_txns_for_policy",
    {"policyName": str},
    ReplayedTxnsForPolicyResult,
    (MetaException,),
    changes=False,
    since=V4_2,
)
_WRITE_ID_STATE: Final = Call(
    "repl_tbl_writeid_state", {"rqst": ReplTblWriteIdStateRequest}, NoneType, (), changes=True, since=V3_1
)
_COMPACT: Final = Call("compact2", {"rqst": CompactionRequest}, CompactionResponse, (), changes=True)
_SHOW_COMPACTIONS: Final = Call(
    "show_compact", {"rqst": ShowCompactRequest}, ShowCompactResponse, (), changes=False
)


class TransactionCalls(Session):
    """Calls about transactional tables.

    Replayed calls need Hive 4.0 and are idempotent at the server, except where a method states otherwise.
    """

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        """Return the highest transaction id and every transaction that is open, or aborted and not yet forgotten."""
        return self._invoke(_OPEN_INFO)

    def newest_txn_id(self) -> int:
        """Return the highest transaction id ever assigned."""
        return self.open_txns_info().txn_high_water_mark

    def highest_write_id(self, db: str, table: str) -> int:
        """Return the highest write id of a table, 0 if it has none (since Hive 4.0)."""
        request = MaxAllocatedTableWriteIdRequest(dbName=db, tableName=table)
        return self._invoke(_HIGHEST, request).maxWriteId

    def valid_write_ids(self, tables: Sequence[str], *, valid_txns: str | None = None) -> list[ValidWriteIds]:
        """Return the write-id list of each table, named as ``db.table``, in the given order (since Hive 3.1).

        For a table that has only invalid write ids, Hive 4 returns an incomplete list: see ``ValidWriteIds.may_be_cut``. Raises
        ServerFault if the answer does not have every table.
        ``valid_txns`` is a list of ``format_valid_txns``: the answer is for a reader with this snapshot instead of the current one.
        """
        if valid_txns is None and self.hive_version < V4_0:
            valid_txns = self._valid_txns()
        request = GetValidWriteIdsRequest(fullTableNames=list(tables), validTxnList=valid_txns)
        found = {
            state.fullTableName.lower(): ValidWriteIds.from_reply(
                state.fullTableName, state.writeIdHighWaterMark, state.invalidWriteIds, state.abortedBits
            )
            for state in self._invoke(_VALID, request).tblValidWriteIds
        }
        missing = [table for table in tables if table.lower() not in found]
        if missing:
            raise ServerFault("the metastore left tables out of its list of write ids", tables=missing[:10])
        return [found[table.lower()] for table in tables]

    def _valid_txns(self) -> str:
        """Return the snapshot that Hive 3 requires: ``hwm:lowest open:open,…:aborted,…`` (ValidReadTxnList)."""
        info = self.open_txns_info()
        opened = [txn.id for txn in info.open_txns if txn.state == TxnState.OPEN]
        aborted = [txn.id for txn in info.open_txns if txn.state == TxnState.ABORTED]
        return format_valid_txns(info.txn_high_water_mark, opened, aborted)

    def abort_txn(self, txn_id: int) -> None:
        """Abort one of this metastore's own transactions, which is not a replayed one; raise TxnNotOpen if it is unknown."""
        self._invoke(ABORT, AbortTxnRequest(txnid=txn_id, errorCode=ABORTED_BY_BOOTSTRAP))

    def open_replayed(self, policy: str, source_txn: int) -> int:
        """Return the target's transaction for ``source_txn``, opened if necessary.

        The mapping ends with the commit or abort; after that, this call would open another transaction. The caller prevents
        it by its position. Raises TargetDiverged if the answer is not exactly one id, Unsupported before Hive 4.0.
        """
        self._require_replay()
        request = OpenTxnRequest(
            num_txns=1,
            user=self.options.user or self.options.identifier,
            hostname=socket.gethostname(),
            agentInfo=self.options.identifier,
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
        """Allocate ``write_id`` for ``source_txn`` in a table; return the write id that the transaction now has.

        None means that the target has no open transaction for ``source_txn``; the server reports no error. A different id
        means that the transaction already had one. Only then may ``reallocate`` be used to replace it: on a plain repetition
        it would forget write ids that other transactions have in the table (reference: hive-replication.md §2.2).
        """
        self._require_replay()
        request = AllocateTableWriteIdsRequest(
            dbName=db,
            tableName=table,
            replPolicy=policy,
            srcTxnToWriteIdList=[TxnToWriteId(txnId=source_txn, writeId=write_id)],
            reallocate=True if reallocate else None,
        )
        allocated = self._invoke(ALLOCATE, request).txnToWriteIds
        return allocated[0].writeId if allocated else None

    def commit_replayed(self, policy: str, source_txn: int, writes: Sequence[WriteEventInfo]) -> None:
        """Commit. ``writes`` contains the target's table names and the source's file entries; the files must be in place.

        Success proves nothing: a commit of an unknown transaction or policy succeeds as well. Raises ServerFault if a file or
        table of ``writes`` is missing; the transaction then stays open.
        """
        self._require_replay()
        request = CommitTxnRequest(
            txnid=source_txn,
            replPolicy=policy,
            writeEventInfos=list(writes) or None,
            txn_type=TxnType.REPL_CREATED,
        )
        self._invoke(COMMIT, request)

    def abort_replayed(self, policy: str, source_txn: int) -> None:
        """Abort; an abort of an unknown transaction succeeds as well."""
        self._require_replay()
        self._invoke(
            ABORT, AbortTxnRequest(txnid=source_txn, replPolicy=policy, txn_type=TxnType.REPL_CREATED)
        )

    def replayed_txns(self, policy: str) -> dict[int, int]:
        """Return the target's open transactions of ``policy``, by source transaction (since Hive 4.2)."""
        found = self._invoke(_REPLAYED, policy).replTxnMapEntry or {}
        return {int(source): int(target) for source, target in found.items()}

    def repl_table_write_ids(
        self, db: str, table: str, valid_write_ids: str, *, partition_names: Sequence[str] | None = None
    ) -> None:
        """Give a table without write ids the state of its source: a write-id list as text, with the target's table name.

        Aborted ids stay invalid, and those that need cleaning are queued for compaction. A table that already has write ids
        does not change.
        """
        request = ReplTblWriteIdStateRequest(
            validWriteIdlist=valid_write_ids,
            user=self.options.user or self.options.identifier,
            hostName=socket.gethostname(),
            dbName=db,
            tableName=table,
            partNames=None if partition_names is None else list(partition_names),
        )
        self._invoke(_WRITE_ID_STATE, request)

    def _require_replay(self) -> None:
        """Raise Unsupported before 4.0, where requests have no ``txn_type`` and ids are read differently."""
        if self.hive_version < V4_0:
            raise Unsupported(
                "replayed transactions require a target with Hive 4",
                generation=str(self.hive_version),
                since=str(V4_0),
            )

    def compact(
        self,
        db: str,
        table: str,
        *,
        partition_name: str | None = None,
        kind: CompactionType = CompactionType.MAJOR,
        properties: Mapping[str, str] | None = None,
    ) -> CompactionResponse:
        """Request a compaction; it is not ``accepted`` if one is already queued or running."""
        request = CompactionRequest(
            dbname=db,
            tablename=table,
            partitionname=partition_name,
            type=kind,
            runas=self.options.user,
            properties=None if properties is None else dict(properties),
        )
        return self._invoke(_COMPACT, request)

    def show_compactions(self) -> list[ShowCompactResponseElement]:
        """Return queued, running and past compactions."""
        return self._invoke(_SHOW_COMPACTIONS, ShowCompactRequest()).compacts


def format_valid_txns(high_water_mark: int, opened: Iterable[int], aborted: Iterable[int]) -> str:
    """Return a snapshot of transactions as Hive reads it: ``hwm:lowest open:open,…:aborted,…`` (ValidReadTxnList)."""
    ids = sorted(opened)
    return f"{high_water_mark}:{min(ids, default=NO_OPEN_WRITE_ID)}:{_join_ids(ids)}:{_join_ids(aborted)}"


def _join_ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
