"""A metastore's own transactions and write ids."""

from __future__ import annotations

import socket
from types import NoneType
from typing import TYPE_CHECKING, Final

from handlers.metastore.calls import Call
from handlers.metastore.hive_version import V3_1, V4_0, V4_2
from handlers.metastore.session import Session
from handlers.structs.exceptions import (
    MetaException,
    NoSuchTxnException,
    TxnAbortedException,
)
from handlers.structs.transactions import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    AllocateTableWriteIdsResponse,
    CommitTxnRequest,
    GetOpenTxnsInfoResponse,
    GetValidWriteIdsRequest,
    GetValidWriteIdsResponse,
    MaxAllocatedTableWriteIdRequest,
    MaxAllocatedTableWriteIdResponse,
    OpenTxnRequest,
    OpenTxnsResponse,
    ReplayedTxnsForPolicyResult,
    ReplTblWriteIdStateRequest,
    TxnState,
    TxnToWriteId,
    TxnType,
)
from state.errors import TargetDiverged, Unsupported
from state.transactions.valid_write_ids import NO_OPEN_WRITE_ID, ValidWriteIds


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handlers.structs.notifications import WriteEventInfo


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


class TransactionCalls(Session):
    """What writers and readers of transactional tables do."""

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        """Return the highest transaction id, and every transaction that is open, or aborted and not forgotten."""
        return self._invoke(_OPEN_INFO)

    def newest_txn_id(self) -> int:
        """Return the highest transaction id that was drawn."""
        return self.open_txns_info().txn_high_water_mark

    def highest_write_id(self, db: str, table: str) -> int:
        """Return the highest write id of a table, 0 where it has none (since Hive 4.0)."""
        request = MaxAllocatedTableWriteIdRequest(dbName=db, tableName=table)
        return self._invoke(_HIGHEST, request).maxWriteId

    def valid_write_ids(self, tables: Sequence[str]) -> list[ValidWriteIds]:
        """Return the list of each table, given as ``db.table``, in the order given (since Hive 3.1).

        Hive 4 does not say everything where a table has none but invalid ids: ``ValidWriteIds.may_be_cut``.
        """
        request = GetValidWriteIdsRequest(
            fullTableNames=list(tables), validTxnList=self._valid_txns() if self.hive_version < V4_0 else None
        )
        found = {
            state.fullTableName.lower(): ValidWriteIds.from_reply(
                state.fullTableName, state.writeIdHighWaterMark, state.invalidWriteIds, state.abortedBits
            )
            for state in self._invoke(_VALID, request).tblValidWriteIds
        }
        return [found[table.lower()] for table in tables]

    def _valid_txns(self) -> str:
        """Return the snapshot that Hive 3 wants with the request: ``hwm:lowest open:open,…:aborted,…`` (ValidReadTxnList)."""
        info = self.open_txns_info()
        opened = [txn.id for txn in info.open_txns if txn.state == TxnState.OPEN]
        aborted = [txn.id for txn in info.open_txns if txn.state == TxnState.ABORTED]
        lowest = min(opened, default=NO_OPEN_WRITE_ID)
        return f"{info.txn_high_water_mark}:{lowest}:{_joined(opened)}:{_joined(aborted)}"

    def open_replayed(self, policy: str, source_txn: int) -> int:
        """Return the target's transaction for ``source_txn``, opening it where there is none.

        After its commit or abort the mapping is gone, and this would open another one: the caller's position prevents it.
        Raises TargetDiverged where the answer is not one id, Unsupported before Hive 4.0.
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
                "The target opened another number of transactions.", source_txn=source_txn, opened=opened
            )
        return opened[0]

    def allocate_replayed(
        self, policy: str, db: str, table: str, source_txn: int, write_id: int, *, reallocate: bool = False
    ) -> int | None:
        """Give ``source_txn`` the write id ``write_id`` in a table; return the one that it has now.

        None: the target has no open transaction for it, which it answers with silence. Another id than asked for: the
        transaction had one already. ``reallocate`` then replaces it, and may only be used then, since on a plain
        repetition it forgets other transactions' ids of the table (reference: hive-replication.md §2.2).
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
        """Commit; ``writes`` name the target's tables and the source's file entries, whose files are on the target already.

        Success proves nothing: an unknown transaction or policy succeeds as well. Raises ServerFault where a file or a
        table of ``writes`` is missing; the transaction is open then.
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
        """Abort; an unknown transaction succeeds as well."""
        self._require_replay()
        self._invoke(
            ABORT, AbortTxnRequest(txnid=source_txn, replPolicy=policy, txn_type=TxnType.REPL_CREATED)
        )

    def replayed_txns(self, policy: str) -> dict[int, int]:
        """Return the target's transactions that are open for ``policy``, by source transaction (since Hive 4.2)."""
        found = self._invoke(_REPLAYED, policy).replTxnMapEntry or {}
        return {int(source): int(target) for source, target in found.items()}

    def repl_table_write_ids(
        self, db: str, table: str, valid_write_ids: str, *, partition_names: Sequence[str] | None = None
    ) -> None:
        """Give a table that has no write ids yet the state of its source, in text form with the target's table name.

        Aborted ids stay invalid, and those that compaction would have to clean are queued for it. A table with write ids
        is left as it is.
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
        """Refuse before 4.0: older ones have no ``txn_type`` and read the ids in another way."""
        if self.hive_version < V4_0:
            raise Unsupported(
                "Replayed transactions need a target of Hive 4.",
                generation=str(self.hive_version),
                since=str(V4_0),
            )


def _joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
